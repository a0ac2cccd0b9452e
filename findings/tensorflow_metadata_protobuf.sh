#!/usr/bin/env bash
# tensorflow-metadata accepts protobuf versions with which it cannot be imported.
#
# Version:   tensorflow-metadata 1.21.0, protobuf 5.29.6
# Behaviour: for Python 3.11 and newer, the package requires protobuf>=4.25.2. Its generated code
#            requires protobuf 6.31.1 or newer. pip nevertheless installs the package with protobuf
#            5.29.6, and `pip check` finds no conflict. The import then raises protobuf's
#            VersionError.
# Surprise:  TensorFlow 2.19 requires protobuf<6, and tensorflow-datasets requires
#            tensorflow-metadata without a version. So a new environment with both packages cannot
#            read a dataset. tensorflow-metadata 1.17.3 works in such an environment.
# Output seen:
#   pip check: No broken requirements found.
#   tensorflow-metadata 1.21.0: VersionError
#   tensorflow-metadata 1.17.3: imported
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder"

import_result() {
  "$folder/bin/python" - <<'END'
try:
    from tensorflow_metadata.proto.v0 import anomalies_pb2  # noqa: F401
except Exception as error:
    print(type(error).__name__)
else:
    print("imported")
END
}

"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  tensorflow-metadata==1.21.0 protobuf==5.29.6
checked=$("$folder/bin/pip" check)
echo "pip check: $checked"
test "$checked" = "No broken requirements found."
seen=$(import_result)
echo "tensorflow-metadata 1.21.0: $seen"
test "$seen" = VersionError
"$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check \
  tensorflow-metadata==1.17.3 protobuf==5.29.6
seen=$(import_result)
echo "tensorflow-metadata 1.17.3: $seen"
test "$seen" = imported
