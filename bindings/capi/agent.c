/* SPDX-License-Identifier: Apache-2.0 */
/* agent.c - agents, their plugins and backends, and metadata. */
#include "handles.h"

#include <stdlib.h>
#include <string.h>

static nixl_capi_status_t agent_create(const char *name, const struct nixl_agent_config *config,
                                       nixl_capi_agent_t *agent) {
    struct nixl_capi_agent_s *made = calloc(1, sizeof *made);

    if (!made) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    nixl_status_t status = nixl_agent_create(name, config, &made->agent);
    if (status != NIXL_SUCCESS) {
        free(made);
        /* The reference's constructor throws, whatever the cause. */
        return NIXL_CAPI_ERROR_BACKEND;
    }
    *agent = made;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_create_configured_agent(const char *name, const nixl_capi_agent_config_t *config,
                                                     nixl_capi_agent_t *agent) {
    struct nixl_agent_config core = NIXL_AGENT_CONFIG_INIT;

    if (!name || !config || !agent || config->listen_port < 0 || config->listen_port > UINT16_MAX ||
        (unsigned)config->thread_sync > NIXL_CAPI_THREAD_SYNC_RW) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    core.progress_thread = config->enable_prog_thread;
    core.listen_thread = config->enable_listen_thread;
    core.listen_port = (uint16_t)config->listen_port;
    core.sync = (enum nixl_sync)config->thread_sync;
    core.progress_delay_us = config->pthr_delay_us;
    core.listen_delay_us = config->lthr_delay_us;
    core.capture_telemetry = config->capture_telemetry;
    return agent_create(name, &core, agent);
}

nixl_capi_status_t nixl_capi_create_agent(const char *name, nixl_capi_agent_t *agent) {
    struct nixl_agent_config core = NIXL_AGENT_CONFIG_INIT;

    if (!name || !agent) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    core.progress_thread = true;
    return agent_create(name, &core, agent);
}

nixl_capi_status_t nixl_capi_destroy_agent(nixl_capi_agent_t agent) {
    if (!agent) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    nixl_agent_destroy(agent->agent);
    free(agent);
    return NIXL_CAPI_SUCCESS;
}

/* ---- Metadata ----------------------------------------------------------------------------------------- */

nixl_capi_status_t nixl_capi_get_local_md(nixl_capi_agent_t agent, void **data, size_t *len) {
    if (!agent || !data || !len) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    return capi_status(nixl_metadata_get(agent->agent, data, len));
}

nixl_capi_status_t nixl_capi_get_local_partial_md(nixl_capi_agent_t agent, nixl_capi_reg_dlist_t descs,
                                                  void **data, size_t *len, nixl_capi_opt_args_t opt_args) {
    struct nixl_options options;

    if (!agent || !descs || !data || !len) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    const struct nixl_list list = capi_reg_list(descs);
    return capi_status(
        nixl_metadata_get_partial(agent->agent, &list, capi_options(&options, opt_args), data, len));
}

nixl_capi_status_t nixl_capi_load_remote_md(nixl_capi_agent_t agent, const void *data, size_t len,
                                            char **agent_name) {
    if (!agent || !data || !len || !agent_name) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    return capi_status(nixl_metadata_load(agent->agent, data, len, agent_name));
}

nixl_capi_status_t nixl_capi_invalidate_remote_md(nixl_capi_agent_t agent, const char *remote_agent) {
    if (!agent || !remote_agent) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    return capi_status(nixl_metadata_invalidate(agent->agent, remote_agent));
}

nixl_capi_status_t nixl_capi_invalidate_local_md(nixl_capi_agent_t agent, nixl_capi_opt_args_t opt_args) {
    struct nixl_options options;

    if (!agent) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    return capi_status(nixl_metadata_invalidate_local(agent->agent, capi_options(&options, opt_args)));
}

nixl_capi_status_t nixl_capi_check_remote_md(nixl_capi_agent_t agent, const char *remote_name,
                                             nixl_capi_xfer_dlist_t descs) {
    if (!agent || !remote_name) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    if (!descs) {
        return capi_status(nixl_metadata_check(agent->agent, remote_name, NULL));
    }
    const struct nixl_list list = capi_xfer_list(descs);
    return capi_status(nixl_metadata_check(agent->agent, remote_name, &list));
}

nixl_capi_status_t nixl_capi_send_local_md(nixl_capi_agent_t agent, nixl_capi_opt_args_t opt_args) {
    struct nixl_options options;

    if (!agent) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    return capi_status(nixl_metadata_send(agent->agent, capi_options(&options, opt_args)));
}

nixl_capi_status_t nixl_capi_send_local_partial_md(nixl_capi_agent_t agent, nixl_capi_reg_dlist_t descs,
                                                   nixl_capi_opt_args_t opt_args) {
    struct nixl_options options;

    if (!agent || !descs) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    const struct nixl_list list = capi_reg_list(descs);
    return capi_status(nixl_metadata_send_partial(agent->agent, &list, capi_options(&options, opt_args)));
}

nixl_capi_status_t nixl_capi_fetch_remote_md(nixl_capi_agent_t agent, const char *remote_name,
                                             nixl_capi_opt_args_t opt_args) {
    struct nixl_options options;

    if (!agent || !remote_name) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    return capi_status(nixl_metadata_fetch(agent->agent, remote_name, capi_options(&options, opt_args)));
}

nixl_capi_status_t nixl_capi_agent_make_connection(nixl_capi_agent_t agent, const char *remote_agent,
                                                   nixl_capi_opt_args_t opt_args) {
    struct nixl_options options;

    if (!agent || !remote_agent) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    nixl_status_t status = nixl_peer_connect(agent->agent, remote_agent, capi_options(&options, opt_args));
    return capi_status(status == NIXL_IN_PROG ? NIXL_SUCCESS : status);
}

/* ---- Plugins and backends ----------------------------------------------------------------------------- */

nixl_capi_status_t nixl_capi_get_available_plugins(nixl_capi_agent_t agent,
                                                   nixl_capi_string_list_t *plugins) {
    if (!agent || !plugins) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    struct nixl_capi_string_list_s *made = calloc(1, sizeof *made);
    if (!made) {
        return NIXL_CAPI_ERROR_BACKEND;
    }
    nixl_status_t status = nixl_plugin_list(&made->names);
    if (status != NIXL_SUCCESS) {
        free(made);
        return capi_status(status);
    }
    *plugins = made;
    return NIXL_CAPI_SUCCESS;
}

/* Hands the caller both lists, or none. Takes `options`, which may be NULL for want of memory. */
static nixl_capi_status_t give_params(uint32_t kinds, struct nixl_capi_params_s *options,
                                      nixl_capi_mem_list_t *mems, nixl_capi_params_t *params) {
    struct nixl_capi_mem_list_s *list = capi_mem_list_new(kinds);

    if (!list || !options) {
        free(list);
        if (options) {
            nixl_capi_destroy_params(options);
        }
        return NIXL_CAPI_ERROR_BACKEND;
    }
    *mems = list;
    *params = options;
    return NIXL_CAPI_SUCCESS;
}

/* The options of a plugin with their defaults, as parameters; NULL when there is no memory. */
static struct nixl_capi_params_s *plugin_defaults(const struct nixl_plugin_info *info) {
    const char *item = (const char *)info->options;
    nixl_capi_params_t made;

    if (nixl_capi_create_params(&made) != NIXL_CAPI_SUCCESS) {
        return NULL;
    }
    for (size_t i = 0; i < info->option_count; i++, item += info->option_bytes) {
        const struct nixl_option_info *option = (const struct nixl_option_info *)(const void *)item;
        if (nixl_capi_params_add(made, option->name, option->default_value) != NIXL_CAPI_SUCCESS) {
            nixl_capi_destroy_params(made);
            return NULL;
        }
    }
    return made;
}

nixl_capi_status_t nixl_capi_get_plugin_params(nixl_capi_agent_t agent, const char *plugin_name,
                                               nixl_capi_mem_list_t *mems, nixl_capi_params_t *params) {
    struct nixl_plugin_info *info;

    if (!agent || !plugin_name || !mems || !params) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    nixl_status_t status = nixl_plugin_describe(plugin_name, &info);
    if (status != NIXL_SUCCESS) {
        return capi_status(status);
    }
    nixl_capi_status_t result = give_params(info->mems, plugin_defaults(info), mems, params);
    nixl_free(info);
    return result;
}

nixl_capi_status_t nixl_capi_create_backend(nixl_capi_agent_t agent, const char *plugin_name,
                                            nixl_capi_params_t params, nixl_capi_backend_t *backend) {
    struct nixl_capi_backend_s *made;
    struct nixl_param *items;
    nixl_status_t status;

    if (!agent || !plugin_name || !params || !backend) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    made = calloc(1, sizeof *made);
    items = calloc(params->count + 1, sizeof *items);
    if (!made || !items) {
        status = NIXL_ERR_BACKEND;
        goto out;
    }
    for (size_t i = 0; i < params->count; i++) {
        items[i] = (struct nixl_param){params->items[i].key, params->items[i].value};
    }
    status = nixl_backend_create(agent->agent, plugin_name, items, params->count, &made->backend);
out:
    free(items);
    if (status != NIXL_SUCCESS) {
        free(made);
        return NIXL_CAPI_ERROR_BACKEND;
    }
    *backend = made;
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_destroy_backend(nixl_capi_backend_t backend) {
    if (!backend) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    free(backend);
    return NIXL_CAPI_SUCCESS;
}

nixl_capi_status_t nixl_capi_get_backend_params(nixl_capi_agent_t agent, nixl_capi_backend_t backend,
                                                nixl_capi_mem_list_t *mems, nixl_capi_params_t *params) {
    struct nixl_params *values;

    if (!agent || !backend || !mems || !params) {
        return NIXL_CAPI_ERROR_INVALID_PARAM;
    }
    nixl_status_t status = nixl_backend_params(backend->backend, &values);
    if (status != NIXL_SUCCESS) {
        return capi_status(status);
    }
    nixl_capi_status_t result =
        give_params(nixl_backend_mems(backend->backend), capi_params_from(values), mems, params);
    nixl_free(values);
    return result;
}
