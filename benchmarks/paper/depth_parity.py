"""Whether the number of ones is odd, trained on 1 to 10 digits; share of right answers. Guessing is
right in half of the cases. (Strings of up to 40 digits, `parity40`, are longer than 14 steps can
count one by one.) Validation is drawn from the 88 strings that training has not, one of 6 digits as
often as sixteen of 10, so that small differences in it say nothing. Fixed depth, ACT and PonderNet
learn 95 to 98 % of it in the mean of three seeds, the others less, and none but the data router,
which learns all, goes on beyond: it takes about a step for each digit, so that 20 digits are right
after 20 steps and more, which training never had: 99.7 to 100 % after 28, of three seeds. One of
them has forgotten it by 40.
"""

from tables import Table, depth

TABLE = Table(
    title="Parity",
    page="depth",
    cells=depth.cells(
        {"parity": "parity10"},
        mixed=True,
        updates=2_000,
        valid="6 to 10 digits, 88 strings (validation)",
        test="20 digits",
    ),
)
