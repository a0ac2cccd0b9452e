"""Train runs on one or two logical CPUs, and print the batches of the runs as JSON.

elastic_test.py runs this program in a new process, because a program must create logical devices
before TensorFlow does anything else.

    python -m tests.training.elastic FOLDER NAME,STEPS,DEVICES ...
"""

import json
import os
import sys

import tensorflow as tf

PROBLEM = "algorithmic_reverse_binary40_test"
# Without dropout, only the initial weights and the order of the examples are random.
HPARAMS = (
    "hidden_size=16,filter_size=16,num_heads=2,num_rec_steps=2,learning_rate_warmup_steps=1,"
    "learning_rate_constant=0.1,"
    "attention_dropout=0,relu_dropout=0,layer_prepostprocess_dropout=0"
)


def flags(folder, name, train_steps):
    """Return the trainer's command line for a run with this name."""
    return [
        f"--problem={PROBLEM}",
        "--model=universal_transformer_encoder",
        "--hparams_set=universal_transformer_tiny",
        f"--hparams={HPARAMS}",
        "--global_batch_size=640",
        "--random_seed=5",
        f"--data_dir={folder}",
        f"--output_dir={os.path.join(folder, name)}",
        f"--train_steps={train_steps}",
        "--schedule=train",
    ]


def weights(output_dir):
    """Return {name: array} of the float variables of model and optimizer.

    The function reads the newest checkpoint.
    """
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(output_dir)))
    names = reader.get_variable_to_shape_map()
    kept = [name for name in names if name.endswith(".ATTRIBUTES/VARIABLE_VALUE")]
    arrays = {name: reader.get_tensor(name) for name in kept}
    return {name: array for name, array in arrays.items() if array.dtype.kind == "f"}


def main():
    import trainer
    from ut_keras.training import distribution, epochs

    folder, *parts = sys.argv[1:]
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    plain = distribution.get_strategy, epochs.Epochs.__next__
    seen = {}
    for part in parts:
        name, train_steps, devices = part.split(",")
        chosen = [f"CPU:{number}" for number in range(int(devices))]
        distribution.get_strategy = lambda *_, chosen=chosen, **__: plain[0](devices=chosen)

        rows = seen.setdefault(name, [])

        def following(self, rows=rows):
            batch = plain[1](self)
            local = self._strategy.experimental_local_results(batch[1])
            rows.append([row for targets in local for row in targets.numpy().tolist()])
            return batch

        epochs.Epochs.__next__ = following
        assert trainer.main(flags(folder, name, train_steps)) == 0
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
