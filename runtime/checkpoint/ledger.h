#pragma once
#include "ps_server/ledger.h"
