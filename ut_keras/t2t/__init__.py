"""Support for unmodified T2T packages, which `--t2t_usr_dir` loads.

    usr_dir             loads a package by its path
    modules             maps T2T's module names to stand-ins, and explains unsupported names
    tf1_compat          the names of TensorFlow 1 in `tf` that such packages use
    registry, problem, text_problems, …    the stand-ins, under T2T's names
    adapted_problem     wraps a T2T problem in the interface of problems/problem.py

A stand-in is a module that replaces a module of T2T for the user's package. Only such packages see
the stand-ins; the rest of ut_keras does not import them. This folder contains no code from T2T.
"""
