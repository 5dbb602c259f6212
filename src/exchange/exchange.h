/* SPDX-License-Identifier: Apache-2.0 */
/* The carriers of metadata between machines, for whoever links this folder without libnixl. */
#ifndef EXCHANGE_EXCHANGE_H
#define EXCHANGE_EXCHANGE_H

/* Gives the carriers to all agents made from now on. libnixl does it when it is loaded. */
void exchange_install(void);

#endif
