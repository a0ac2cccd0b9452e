"""Write tables in the format of Linzen's table, for tests."""

import csv
import gzip
import os

from ut_keras.problems import agreement_files

COLUMNS = (
    *("sentence", "orig_sentence", "pos_sentence", "subj", "verb", "subj_pos", "has_rel"),
    *("has_nsubj", "verb_pos", "subj_index", "verb_index", "n_intervening", "last_intervening"),
    *("n_diff_intervening", "distance", "max_depth", "all_nouns", "nouns_up_to_verb"),
)


def write(path, rows):
    """Write a .tsv.gz from rows (sentence, index of the verb from 0, tag, nouns, attractors).

    `nouns` is the number of nouns between the subject and the verb. `attractors` is the number of
    nouns among them that differ from the subject in grammatical number.
    """
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(COLUMNS)
        for sentence, place, tag, nouns, attractors in rows:
            columns = dict.fromkeys(COLUMNS, "-")
            columns.update(
                sentence=sentence,
                verb_pos=tag,
                verb_index=place + 1,
                n_intervening=nouns,
                n_diff_intervening=attractors,
            )
            writer.writerow([columns[name] for name in COLUMNS])


def write_real(path, folder):
    """Write a small real table from the files in shared/data/sva.

    The table contains all sentences of linzen_testset, with all words. It also contains those
    sentences of edinburgh_nlu in which the verb directly follows the subject. In the sentences of
    edinburgh_nlu, parts of speech replace rare words.
    """
    rows = []
    with open(os.path.join(folder, "linzen_testset", "subj_agr_filtered.text")) as file:
        texts = file.read().splitlines()
    examples = agreement_files.read_linzen_testset(os.path.join(folder, "linzen_testset"), "test")
    for text, example in zip(texts, examples, strict=True):
        words = text.split()[:-1]
        place = len(example.words)
        words[place] = example.verb
        rows.append((" ".join(words), place, example.tag, example.attractors, example.attractors))
    with open(os.path.join(folder, "edinburgh_nlu", "wiki-dev.txt")) as file:
        lines = [line.split("\t") for line in file.read().splitlines()[1:]]
    for sentence, subject, verb, tag, _, _ in lines:
        if int(verb) - int(subject) == 1:
            rows.append((sentence, int(verb), tag, 0, 0))
    write(path, rows)
