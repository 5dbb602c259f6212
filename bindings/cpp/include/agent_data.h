/* SPDX-License-Identifier: Apache-2.0 */
/* agent_data.h - where programs expect class nixlBackendH; it is in nixl.h. */
#ifndef NIXL_CPP_AGENT_DATA_H
#define NIXL_CPP_AGENT_DATA_H

#include "nixl.h"

#endif
