#!/bin/sh
# Stands for an agent under whatever name it is linked to: does what lies beside the link under NAME.sh.
. "$0.sh"
