"""A package that was written for T2T, as it is: what `--t2t_usr_dir` imports.

    usr_dir             loads it, by path
    modules             T2T's modules by name: those of ours that stand in for them, and the others
    tf1_compat     the `tf` of TensorFlow 1 that such packages have
    registry, problem, text_problems, …    the stand-ins themselves, by T2T's names
    adapted_problem     a Problem of T2T's kind behind the contract of problems/problem.py

Nothing here is T2T's code. The stand-ins are seen by the user's package only, and nothing else of
ut_keras imports them.
"""
