#!/bin/bash
# The model of a job's life holds, and each rule that it rests on is needed.
MODEL_FAULTS=2 exec "$KILN_SOURCE/tests/sim/model_check.sh" "$PWD/model"
