#!/bin/sh
# Stands in for `runner` when the tests start the sample's agent: writes each argument to $RECORD, ended by a NUL, and
# standard input, where an argument is `-`, to $RECORD.input.
for argument in "$@"; do
    printf '%s\0' "$argument" >>"$RECORD"
    if [ "$argument" = - ]; then
        cat >"$RECORD.input"
    fi
done
