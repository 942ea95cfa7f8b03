#!/bin/sh
# exports_test.sh PLUGIN: the plugin exports its table and nothing else, so that no symbol of it can
# take the place of one of the program's.
found=$(nm -D --defined-only "$1" | awk '{print $3}' | sort | tr '\n' ' ')
[ "$found" = "coxswain_device_api " ] && exit 0
echo "wanted coxswain_device_api alone, found $found"
exit 1
