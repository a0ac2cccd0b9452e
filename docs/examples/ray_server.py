"""Serve an export on several machines with Ray Serve, in the form of TensorFlow Serving's REST API.

python docs/examples/ray_server.py served/reverse reverse --replicas=4 --port=8501
"""

import argparse
import os
import sys

try:
    import ray
    from ray import serve
except ImportError as error:
    if __name__ != "__main__":
        raise
    sys.exit(
        f"error: ray_server.py requires ray with Ray Serve. Received: {error}. "
        "In your clone of ut_keras, run: pip install -e '.[serve]' 'ray[serve]'."
    )


def make_application(folder, name, replicas):
    """Return the application for Ray Serve. Each replica loads the export in its own process."""

    path = os.path.abspath(folder)  # each replica has another working directory

    def make_server():
        from rest_server import make_app  # only the replicas load TensorFlow

        return make_app(path, name)

    @serve.deployment(name=name, num_replicas=replicas)
    @serve.ingress(make_server)
    class Model: ...

    return Model.bind()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="folder that contains the versions of an export")
    parser.add_argument("name", help="name of the model in the address")
    parser.add_argument("--replicas", type=int, default=2, help="processes, on all machines")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 for other machines")
    parser.add_argument("--port", type=int, default=8501)
    args = parser.parse_args()
    ray.init(runtime_env={"working_dir": os.path.dirname(os.path.abspath(__file__))})
    serve.start(http_options={"host": args.host, "port": args.port, "location": "EveryNode"})
    serve.run(make_application(args.folder, args.name, args.replicas), blocking=True)
