from ut_keras.t2t import naming


def test_names_convert_between_camel_and_snake_case():
    names = ["TranslateEnFa8k", "My_Problem", "transformer__mine", "ABCd1E"]
    # T2T's function returns these names.
    made = ["translate_en_fa8k", "my__problem", "transformer__mine", "ab_cd1_e"]
    assert list(map(naming.camelcase_to_snakecase, names)) == made
    assert naming.snakecase_to_camelcase(made[0]) == names[0]
