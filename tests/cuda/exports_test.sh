#!/bin/sh
# exports_test.sh PLUGIN: the plugin exports its table and nothing else, so that no symbol of it can
# take the place of one of the program's. And it never calls exit(), as nvcc makes the host do where
# it calls a function that is for the device only.
found=$(nm -D --defined-only "$1" | awk '{print $3}' | sort | tr '\n' ' ')
if [ "$found" != "coxswain_device_api " ]; then
  echo "wanted coxswain_device_api alone, found $found"
  exit 1
fi
if nm -D --undefined-only "$1" | grep -qw exit; then
  echo "the plugin calls exit(): a function that the host calls is COX_DEVICE, wanted COX_BOTH"
  exit 1
fi
