"""One model per task is trained for 10,000 updates on the 1,000 questions of the task. A tenth of
them is held out for validation, so 900 questions remain.

The errors are far above the paper's. The largest errors are in tasks that need two facts (task 2),
three facts (task 3), a rule (task 16) or a path (task 19). On tasks 16, 17 and 19, the validation
error is lowest after 2,000 to 7,000 updates. Small initial weights did not help. No other change
improved every task on which it was tried.

**Copies of the stories, with another recipe, help.** Each model in the rows `permuted` is trained
on 20 copies of each of the 900 stories. Each copy exchanges names, places and other similar words
(`BabiQaPermuted` in problems/babi_qa.py). For each task, we use the seed with the lowest validation
error. The mean test error of the 20 tasks is 20.15 for the adaptive models and 7.12 for the models
`permuted`. If we choose, for each task, the model with the lower validation error, the mean test
error is 5.86, and 4 tasks fail.

- These rows are an addition of ut_keras. The paper's models were trained without copies.
- The models `permuted` are smaller. They have a fixed number of steps, no dropout and no label
  smoothing. We did not measure separately what the copies and the recipe contribute. In the table
  [bAbI, 1k, joint](#babi-1k-joint), one row differs only in the copies.
- One model for all tasks, also trained on copies, has lower errors on tasks 2, 3, 7, 11 and 13.
- The models `permuted` have two seeds. They are worse than the adaptive models on tasks 11, 13 and
  18. The copies of tasks 15, 18 and 20 are equal to the original stories.
- The hparams set is that of `task16, permuted` in the table of 10k. It was chosen after a run that
  was stopped early. In this run, the validation error of task 6 fell to 3 % within 2,000 updates.
- The models for 11 tasks were trained first. These were the tasks on which the adaptive model has a
  test error above 5 %. The other nine tasks followed with the same recipe.

**Recipe.** The recipe is that of the table [bAbI, 10k, joint](#babi-10k-joint), with two changes:
dropout is 0.3, and the first position of a story is a random number. The paper uses random
positions for its algorithmic tasks. Both changes were chosen by the validation error of tasks 9 and
14:

| Recipe | error on validation, task 9 | task 14 |
| --- | --- | --- |
| without both changes | 23 % | 12 % |
| with both | 9 % | 10 % |
| with dropout 0.5 | 28 % | 16 % |

Two of the paper's results are hard to explain:

- On four tasks, the paper's mean error over ten seeds is lower with 1,000 questions than with
  10,000: task 7 (0.0 and 0.3), task 8 (0.1 and 0.3), task 14 (0.1 and 1.8) and task 15 (0.3 and
  2.1).
- The paper's joint model for all tasks has a higher mean error (11.21 ± 6.62) than its single-task
  models. In ut_keras the joint model has a lower mean error (14.3) than the single-task models of
  this table.
"""

from results import babi
from results.definitions import Table

TABLE = Table(
    title="bAbI, 1k, single task",
    cells=(
        *babi.single("1k", dict.fromkeys(range(1, 21), 10_000), sets="_1k"),
        *babi.permuted("1k", range(1, 21), 10_000),
    ),
    averages={
        "adaptive": "4.56 (3/20); 6.39 ± 3.22",
        "universal": "5.31 (5/20)",
        "transformer": "21.8 (5/20)",
        "permuted": "4.56 (3/20); 6.39 ± 3.22 without copies",
    },
    raw=babi.RAW,
)
