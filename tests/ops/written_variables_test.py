import tensorflow as tf

from ut_keras.ops import written_variables


def test_find_returns_only_written_variables():
    """`find` also skips a variable that a loop or a branch only reads."""
    read, in_loop, in_branch, written = (tf.Variable(float(i), name=f"v{i}") for i in range(4))

    @tf.function(autograph=False)
    def inner():
        return read + 1.0

    def run():
        def body(i):
            in_loop.assign_add(tf.cast(i, tf.float32) + read)
            return i + 1

        tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])
        tf.cond(read > 0, lambda: in_branch.assign(read), lambda: in_branch + 0.0)
        written.assign(inner())
        return tf.gather(read[tf.newaxis], 0)

    found = written_variables.find(tf.function(run, autograph=False).get_concrete_function())
    expected = {id(variable.handle) for variable in (in_loop, in_branch, written)}
    assert {id(handle) for handle, _ in found} == expected
    names = {name for _, name in found}
    assert names <= {"v1:0", "v2:0", "v3:0", "a variable"} and "v2:0" in names


def test_find_returns_nothing_for_a_function_that_only_reads():
    variable = tf.Variable([1.0, 2.0])

    def run():
        body = lambda i, x: (i + 1, x * tf.reduce_sum(variable))  # noqa: E731
        return tf.while_loop(lambda i, x: i < 3, body, [tf.constant(0), tf.gather(variable, 0)])

    program = tf.function(run, autograph=False).get_concrete_function()
    assert written_variables.find(program) == []
