/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one translation unit of libnixl that is not in a folder's library: a version string that `strings`
 * and debuggers find. Everything else is linked in whole from src/base, wire, plugin and agent.
 */
extern const char libnixl_ident[];
const char libnixl_ident[] __attribute__((used)) = "@(#) libnixl " NIXL_VERSION_TEXT;
