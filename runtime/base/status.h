// The public macros by the short names that this tree uses.
#pragma once

#include "absl/strings/str_cat.h"
#include "coxswain/status.h"

#define RETURN_IF_ERROR COX_RETURN_IF_ERROR
#define ASSIGN_OR_RETURN COX_ASSIGN_OR_RETURN
