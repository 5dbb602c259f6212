/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixl.h - the C++ interface: class nixlAgent, a thin layer over <nixl/nixl.h>. Programs written for the reference
 * compile against it; they must be recompiled, its objects are not binary compatible. C++17 and later.
 *
 * Only constructors throw: std::invalid_argument and std::runtime_error, with the reason in words. Every other method
 * returns a status, NIXL_ERR_BACKEND also where memory ran out; nixl_error() has the words. An agent may be used from
 * any threads at once, in every sync mode. Lists and optional arguments are read during the call only.
 */
#ifndef NIXL_CPP_NIXL_H
#define NIXL_CPP_NIXL_H

#include "nixl_descriptors.h"
#include "nixl_params.h"
#include "nixl_types.h"

#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>

// One backend of one agent. The handle lives as long as its agent and belongs to it.
class nixlBackendH {
  public:
    nixl_backend_t getType() const { return nixl_backend_type(backend_); }

    bool supportsRemote() const { return (nixl_backend_caps(backend_) & NIXL_CAP_REMOTE) != 0; }

    bool supportsLocal() const { return (nixl_backend_caps(backend_) & NIXL_CAP_LOCAL) != 0; }

    bool supportsNotif() const { return (nixl_backend_caps(backend_) & NIXL_CAP_NOTIF) != 0; }

    // The same backend for the C interface.
    struct nixl_backend *native() const {
        return backend_;
    }

    explicit nixlBackendH(struct nixl_backend *backend) : backend_(backend) {}
    nixlBackendH(const nixlBackendH &) = delete;
    nixlBackendH &operator=(const nixlBackendH &) = delete;

  private:
    struct nixl_backend *backend_;
};

class nixlAgent {
  public:
    // Throws std::invalid_argument (the name) and std::runtime_error (everything else, in words).
    nixlAgent(const std::string &name, const nixlAgentConfig &cfg) : data_(new Data) {
        struct nixl_agent_config config = NIXL_AGENT_CONFIG_INIT;

        config.progress_thread = cfg.useProgThread;
        config.listen_thread = cfg.useListenThread;
        config.capture_telemetry = cfg.captureTelemetry;
        config.sync = static_cast<enum nixl_sync>(cfg.syncMode);
        config.listen_port = cfg.listenPort;
        config.progress_delay_us = cfg.pthrDelay;
        config.listen_delay_us = cfg.lthrDelay;
        config.etcd_watch_timeout_us = static_cast<std::uint64_t>(cfg.etcdWatchTimeout.count());
        if (name.empty() || name.find('\0') != std::string::npos) {
            throw std::invalid_argument("an agent's name has at least one byte, and none that is 0");
        }
        if (nixl_agent_create(name.c_str(), &config, &agent_) != NIXL_SUCCESS) {
            throw std::runtime_error(nixl_error());
        }
    }

    ~nixlAgent() { nixl_agent_destroy(agent_); }

    nixlAgent(const nixlAgent &) = delete;
    nixlAgent(nixlAgent &&) = delete;
    nixlAgent &operator=(const nixlAgent &) = delete;
    nixlAgent &operator=(nixlAgent &&) = delete;

    // ---- Plugins and backends ----

    nixl_status_t getAvailPlugins(std::vector<nixl_backend_t> &plugins) {
        return guarded([&] {
            Block<struct nixl_names> names;
            const nixl_status_t status = nixl_plugin_list(names.out());
            if (status == NIXL_SUCCESS) {
                plugins.assign(names->items, names->items + names->count);
            }
            return status;
        });
    }

    // The kinds of memory that a plugin takes, and its options with their defaults. Both are overwritten.
    nixl_status_t getPluginParams(const nixl_backend_t &type, nixl_mem_list_t &mems,
                                  nixl_b_params_t &params) const {
        return guarded([&] {
            Block<struct nixl_plugin_info> info;
            const nixl_status_t status = nixl_plugin_describe(type.c_str(), info.out());
            if (status == NIXL_SUCCESS) {
                const char *item = reinterpret_cast<const char *>(info->options);
                mems = kinds(info->mems);
                params.clear();
                for (std::size_t i = 0; i < info->option_count; i++, item += info->option_bytes) {
                    const auto *option = reinterpret_cast<const struct nixl_option_info *>(item);
                    params[option->name] = option->default_value;
                }
            }
            return status;
        });
    }

    // The same with the values in force.
    nixl_status_t getBackendParams(const nixlBackendH *backend, nixl_mem_list_t &mems,
                                   nixl_b_params_t &params) const {
        if (!backend) {
            return NIXL_ERR_INVALID_PARAM;
        }
        return guarded([&] {
            Block<struct nixl_params> values;
            const nixl_status_t status = nixl_backend_params(backend->native(), values.out());
            if (status == NIXL_SUCCESS) {
                mems = kinds(nixl_backend_mems(backend->native()));
                params = map_of(*values);
            }
            return status;
        });
    }

    nixl_status_t createBackend(const nixl_backend_t &type, const nixl_b_params_t &params,
                                nixlBackendH *&backend) {
        backend = nullptr;
        return guarded([&] {
            std::vector<struct nixl_param> items;
            struct nixl_backend *made = nullptr;
            for (const auto &[key, value] : params) {
                items.push_back({key.c_str(), value.c_str()});
            }
            const nixl_status_t status =
                nixl_backend_create(agent_, type.c_str(), items.data(), items.size(), &made);
            if (status == NIXL_SUCCESS) {
                backend = handle_of(made);
            }
            return status;
        });
    }

    // ---- Memory ----

    nixl_status_t registerMem(const nixl_reg_dlist_t &descs, const nixl_opt_args_t *extra_params = nullptr) {
        return guarded([&] {
            const RegList list(descs);
            const Options options(extra_params);
            return nixl_mem_register(agent_, &list.list, options.get());
        });
    }

    nixl_status_t deregisterMem(const nixl_reg_dlist_t &descs,
                                const nixl_opt_args_t *extra_params = nullptr) {
        return guarded([&] {
            const RegList list(descs);
            const Options options(extra_params);
            return nixl_mem_deregister(agent_, &list.list, options.get());
        });
    }

    // extra_params names exactly one backend.
    nixl_status_t queryMem(const nixl_reg_dlist_t &descs, std::vector<nixl_query_resp_t> &resp,
                           const nixl_opt_args_t *extra_params) const {
        return guarded([&] {
            const RegList list(descs);
            const Options options(extra_params);
            Block<struct nixl_query_results> results;
            const nixl_status_t status = nixl_mem_query(agent_, &list.list, options.get(), results.out());
            if (status == NIXL_SUCCESS) {
                resp.clear();
                for (std::size_t i = 0; i < results->count; i++) {
                    const struct nixl_query_result &one = results->items[i];
                    resp.push_back(one.found ? nixl_query_resp_t(map_of(one.params)) : std::nullopt);
                }
            }
            return status;
        });
    }

    // ---- Transfers ----

    // Connects ahead of the first transfer; SUCCESS also while that is under way.
    nixl_status_t makeConnection(const std::string &remote_agent,
                                 const nixl_opt_args_t *extra_params = nullptr) {
        return guarded([&] {
            const Options options(extra_params);
            const nixl_status_t status = nixl_peer_connect(agent_, remote_agent.c_str(), options.get());
            return status == NIXL_IN_PROG ? NIXL_SUCCESS : status;
        });
    }

    // NIXL_INIT_AGENT: the local side; the agent's own name: loopback; else a loaded agent.
    nixl_status_t prepXferDlist(const std::string &agent_name, const nixl_xfer_dlist_t &descs,
                                nixlDlistH *&dlist_hndl,
                                const nixl_opt_args_t *extra_params = nullptr) const {
        return prepare(agent_name, plain(descs), dlist_hndl, extra_params);
    }

    nixl_status_t prepXferDlist(const nixl_xfer_dlist_t &descs, nixlDlistH *&dlist_hndl,
                                const nixl_opt_args_t *extra_params = nullptr) const {
        return prepare(NIXL_INIT_AGENT, plain(descs), dlist_hndl, extra_params);
    }

    nixl_status_t prepXferDlist(const std::string &agent_name, const nixl_stride_dlist_t &descs,
                                nixlDlistH *&dlist_hndl,
                                const nixl_opt_args_t *extra_params = nullptr) const {
        return prepare(agent_name, strided(descs), dlist_hndl, extra_params);
    }

    nixl_status_t makeXferReq(const nixl_xfer_op_t &operation, const nixlDlistH *local_side,
                              const std::vector<int> &local_indices, const nixlDlistH *remote_side,
                              const std::vector<int> &remote_indices, nixlXferReqH *&req_hndl,
                              const nixl_opt_args_t *extra_params = nullptr) const {
        req_hndl = nullptr;
        // Empty lists have no pointer, which the C interface would read as "all of them".
        if (!local_side || !remote_side || local_indices.empty() ||
            local_indices.size() != remote_indices.size()) {
            return NIXL_ERR_INVALID_PARAM;
        }
        static_assert(sizeof(int) == sizeof(std::int32_t), "indices are handed on as they are");
        return guarded([&] {
            const Options options(extra_params);
            struct nixl_xfer *made = nullptr;
            const nixl_status_t status = nixl_xfer_make(
                agent_, operation, native(local_side), local_indices.data(), native(remote_side),
                remote_indices.data(), local_indices.size(), options.get(), &made);
            req_hndl = reinterpret_cast<nixlXferReqH *>(made);
            return status;
        });
    }

    nixl_status_t createXferReq(const nixl_xfer_op_t &operation, const nixl_xfer_dlist_t &local_descs,
                                const nixl_xfer_dlist_t &remote_descs, const std::string &remote_agent,
                                nixlXferReqH *&req_hndl,
                                const nixl_opt_args_t *extra_params = nullptr) const {
        req_hndl = nullptr;
        return guarded([&] {
            const Options options(extra_params);
            const struct nixl_list local = plain(local_descs), remote = plain(remote_descs);
            struct nixl_xfer *made = nullptr;
            const nixl_status_t status = nixl_xfer_create(agent_, operation, &local, &remote,
                                                          remote_agent.c_str(), options.get(), &made);
            req_hndl = reinterpret_cast<nixlXferReqH *>(made);
            return status;
        });
    }

    nixl_status_t estimateXferCost(const nixlXferReqH *req_hndl, std::chrono::microseconds &duration,
                                   std::chrono::microseconds &err_margin, nixl_cost_t &method,
                                   const nixl_opt_args_t *extra_params = nullptr) const {
        struct nixl_cost cost = NIXL_COST_INIT;
        (void)extra_params;
        const nixl_status_t status = nixl_xfer_cost(native(req_hndl), &cost);
        if (status == NIXL_SUCCESS) {
            duration = microseconds(cost.duration_ns);
            err_margin = microseconds(cost.margin_ns);
            method = nixl_cost_t::ANALYTICAL_BACKEND;
        }
        return status;
    }

    // extra_params nullptr: the stored notification is sent again; one without a notification: it is dropped.
    nixl_status_t postXferReq(nixlXferReqH *req_hndl, const nixl_opt_args_t *extra_params = nullptr) const {
        if (!extra_params) {
            return nixl_xfer_post(native(req_hndl), nullptr);
        }
        struct nixl_options options = NIXL_OPTIONS_INIT;
        set_notification(options, *extra_params);
        return nixl_xfer_post(native(req_hndl), &options);
    }

    nixl_status_t getXferStatus(nixlXferReqH *req_hndl) const { return nixl_xfer_poll(native(req_hndl)); }

    // The request's status when it has not succeeded.
    nixl_status_t getXferTelemetry(const nixlXferReqH *req_hndl, nixl_xfer_telem_t &telemetry) const {
        struct nixl_xfer_times times = NIXL_XFER_TIMES_INIT;
        const nixl_status_t status = nixl_xfer_stats(native(req_hndl), &times);
        if (status == NIXL_SUCCESS) {
            telemetry.startTime = chrono_point_t(std::chrono::duration_cast<chrono_point_t::duration>(
                std::chrono::nanoseconds(static_cast<std::int64_t>(times.start_ns))));
            telemetry.postDuration = microseconds(times.post_ns);
            telemetry.xferDuration = microseconds(times.xfer_ns);
            telemetry.totalBytes = static_cast<std::size_t>(times.total_bytes);
            telemetry.descCount = static_cast<std::size_t>(times.desc_count);
        }
        return status;
    }

    nixl_status_t queryXferBackend(const nixlXferReqH *req_hndl, nixlBackendH *&backend) const {
        backend = nullptr;
        if (!req_hndl) {
            return NIXL_ERR_INVALID_PARAM;
        }
        struct nixl_backend *found = nixl_xfer_backend(native(req_hndl));
        if (!found) {
            return NIXL_ERR_NOT_FOUND;
        }
        return guarded([&] {
            backend = handle_of(found);
            return NIXL_SUCCESS;
        });
    }

    // REPOST_ACTIVE: it is still in flight, the handle stays valid.
    nixl_status_t releaseXferReq(nixlXferReqH *req_hndl) const {
        return req_hndl ? nixl_xfer_release(native(req_hndl)) : NIXL_ERR_INVALID_PARAM;
    }

    nixl_status_t releasedDlistH(nixlDlistH *dlist_hndl) const {
        if (!dlist_hndl) {
            return NIXL_ERR_INVALID_PARAM;
        }
        nixl_dlist_release(reinterpret_cast<struct nixl_dlist *>(dlist_hndl));
        return NIXL_SUCCESS;
    }

    // ---- Memory views ----

    nixl_status_t prepMemView(const nixl_remote_dlist_t &dlist, nixlMemViewH &mvh,
                              const nixl_opt_args_t *extra_params = nullptr) const {
        mvh = nullptr;
        return guarded([&] {
            std::vector<struct nixl_remote_desc> items;
            for (const nixlRemoteDesc &desc : dlist) {
                const bool is_slot = desc.remoteAgent == nixl_null_agent;
                items.push_back(
                    {desc.addr, desc.len, desc.devId, is_slot ? nullptr : desc.remoteAgent.c_str()});
            }
            const struct nixl_list list =
                list_of(dlist.getType(), NIXL_FORM_REMOTE, items.data(), items.size());
            const Options options(extra_params);
            return nixl_view_remote(agent_, &list, options.get(), &mvh);
        });
    }

    nixl_status_t prepMemView(const nixl_local_dlist_t &dlist, nixlMemViewH &mvh,
                              const nixl_opt_args_t *extra_params = nullptr) const {
        mvh = nullptr;
        return guarded([&] {
            const struct nixl_list list = plain(dlist);
            const Options options(extra_params);
            return nixl_view_local(agent_, &list, options.get(), &mvh);
        });
    }

    void releaseMemView(nixlMemViewH mvh) const { nixl_view_release(agent_, mvh); }

    // ---- Notifications ----

    // Adds what has arrived to the map.
    nixl_status_t getNotifs(nixl_notifs_t &notif_map, const nixl_opt_args_t *extra_params = nullptr) {
        return guarded([&] {
            const Options options(extra_params);
            struct nixl_notifs *taken = nullptr;
            const nixl_status_t status = nixl_notif_take(agent_, options.get(), &taken);
            const std::unique_ptr<struct nixl_notifs, void (*)(struct nixl_notifs *)> keeper(
                taken, nixl_notifs_release);
            for (std::size_t i = 0; taken && i < taken->count; i++) {
                const struct nixl_notif &one = taken->items[i];
                notif_map[one.agent].emplace_back(static_cast<const char *>(one.msg), one.len);
            }
            return status;
        });
    }

    nixl_status_t genNotif(const std::string &remote_agent, const nixl_blob_t &msg,
                           const nixl_opt_args_t *extra_params = nullptr) const {
        return guarded([&] {
            const Options options(extra_params);
            return nixl_notif_send(agent_, remote_agent.c_str(), msg.data(), msg.size(), options.get());
        });
    }

    // ---- Metadata ----

    nixl_status_t getLocalMD(nixl_blob_t &str) const {
        return guarded([&] {
            Block<void> blob;
            std::size_t len = 0;
            const nixl_status_t status = nixl_metadata_get(agent_, blob.out(), &len);
            if (status == NIXL_SUCCESS) {
                str.assign(static_cast<const char *>(blob.get()), len);
            }
            return status;
        });
    }

    nixl_status_t getLocalPartialMD(const nixl_reg_dlist_t &descs, nixl_blob_t &str,
                                    const nixl_opt_args_t *extra_params = nullptr) const {
        return guarded([&] {
            const RegList list(descs);
            const Options options(extra_params);
            Block<void> blob;
            std::size_t len = 0;
            const nixl_status_t status =
                nixl_metadata_get_partial(agent_, &list.list, options.get(), blob.out(), &len);
            if (status == NIXL_SUCCESS) {
                str.assign(static_cast<const char *>(blob.get()), len);
            }
            return status;
        });
    }

    nixl_status_t loadRemoteMD(const nixl_blob_t &remote_metadata, std::string &agent_name) {
        return guarded([&] {
            Block<char> name;
            const nixl_status_t status =
                nixl_metadata_load(agent_, remote_metadata.data(), remote_metadata.size(), name.out());
            if (status == NIXL_SUCCESS) {
                agent_name = name.get();
            }
            return status;
        });
    }

    nixl_status_t invalidateRemoteMD(const std::string &remote_agent) {
        return nixl_metadata_invalidate(agent_, remote_agent.c_str());
    }

    nixl_status_t sendLocalMD(const nixl_opt_args_t *extra_params = nullptr) const {
        return guarded([&] {
            const Options options(extra_params);
            return options.port_is_right() ? nixl_metadata_send(agent_, options.get())
                                           : NIXL_ERR_INVALID_PARAM;
        });
    }

    nixl_status_t sendLocalPartialMD(const nixl_reg_dlist_t &descs,
                                     const nixl_opt_args_t *extra_params = nullptr) const {
        return guarded([&] {
            const RegList list(descs);
            const Options options(extra_params);
            return options.port_is_right() ? nixl_metadata_send_partial(agent_, &list.list, options.get())
                                           : NIXL_ERR_INVALID_PARAM;
        });
    }

    nixl_status_t fetchRemoteMD(const std::string remote_name,
                                const nixl_opt_args_t *extra_params = nullptr) {
        return guarded([&] {
            const Options options(extra_params);
            return options.port_is_right() ? nixl_metadata_fetch(agent_, remote_name.c_str(), options.get())
                                           : NIXL_ERR_INVALID_PARAM;
        });
    }

    nixl_status_t invalidateLocalMD(const nixl_opt_args_t *extra_params = nullptr) const {
        return guarded([&] {
            const Options options(extra_params);
            return options.port_is_right() ? nixl_metadata_invalidate_local(agent_, options.get())
                                           : NIXL_ERR_INVALID_PARAM;
        });
    }

    // Is the agent loaded, and does one backend know every block of the list (none: not asked)?
    nixl_status_t checkRemoteMD(const std::string remote_name, const nixl_xfer_dlist_t &descs) const {
        const struct nixl_list list = plain(descs);
        return nixl_metadata_check(agent_, remote_name.c_str(), descs.isEmpty() ? nullptr : &list);
    }

    // ---- Beyond the reference: the same objects for the C interface ----

    struct nixl_agent *native() const {
        return agent_;
    }

    static struct nixl_xfer *native(const nixlXferReqH *req_hndl) {
        return reinterpret_cast<struct nixl_xfer *>(const_cast<nixlXferReqH *>(req_hndl));
    }

    static const struct nixl_dlist *native(const nixlDlistH *dlist_hndl) {
        return reinterpret_cast<const struct nixl_dlist *>(dlist_hndl);
    }

  private:
    // Handles keep their place: programs hold pointers to them.
    struct Data {
        std::mutex lock;
        std::deque<nixlBackendH> backends;
    };

    // A result block of the C interface, freed at the end of its scope.
    template <class T> class Block {
      public:
        Block() = default;
        Block(const Block &) = delete;
        Block &operator=(const Block &) = delete;
        ~Block() { nixl_free(block_); }
        T **out() { return &block_; }
        T *get() const { return block_; }
        T *operator->() const { return block_; }
        template <class U = T> const U &operator*() const { return *block_; }

      private:
        T *block_ = nullptr;
    };

    static void set_notification(struct nixl_options &options, const nixl_opt_args_t &extra) {
        const bool is_old_form = !extra.notif.has_value() && extra.hasNotif;
        const nixl_blob_t &message = is_old_form || !extra.notif.has_value() ? extra.notifMsg : *extra.notif;
        options.has_notif = extra.notif.has_value() || is_old_form;
        if (options.has_notif) {
            options.notif = message.data();
            options.notif_len = message.size();
        }
    }

    // Optional arguments as the C interface takes them. Borrows from `extra`, which outlives the call.
    class Options {
      public:
        explicit Options(const nixl_opt_args_t *extra) : is_there_(extra != nullptr) {
            if (!extra) {
                return;
            }
            backends_.reserve(extra->backends.size());
            for (const nixlBackendH *backend : extra->backends) {
                backends_.push_back(backend ? backend->native() : nullptr);
            }
            options_.backends = backends_.data();
            options_.backend_count = backends_.size();
            set_notification(options_, *extra);
            options_.keep_lists = extra->skipDescMerge;
            options_.include_conn = extra->includeConnInfo;
            options_.ip_addr = extra->ipAddr.c_str();
            options_.port = static_cast<std::uint16_t>(extra->port);
            port_is_right_ = extra->ipAddr.empty() || (extra->port >= 0 && extra->port <= 65535);
            options_.label = extra->metadataLabel.empty() ? nullptr : extra->metadataLabel.c_str();
            options_.custom = extra->customParam.data();
            options_.custom_len = extra->customParam.size();
        }
        Options(const Options &) = delete;
        Options &operator=(const Options &) = delete;

        const struct nixl_options *get() const { return is_there_ ? &options_ : nullptr; }
        bool port_is_right() const { return port_is_right_; }

      private:
        struct nixl_options options_ = NIXL_OPTIONS_INIT;
        std::vector<struct nixl_backend *> backends_;
        bool is_there_, port_is_right_ = true;
    };

    // A registration list as the C interface takes it. Borrows the metadata bytes.
    struct RegList {
        explicit RegList(const nixl_reg_dlist_t &descs) {
            items.reserve(static_cast<std::size_t>(descs.descCount()));
            for (const nixlBlobDesc &desc : descs) {
                items.push_back(
                    {desc.addr, desc.len, desc.devId, desc.metaInfo.data(), desc.metaInfo.size()});
            }
            list = list_of(descs.getType(), NIXL_FORM_META, items.data(), items.size());
        }
        RegList(const RegList &) = delete;
        RegList &operator=(const RegList &) = delete;
        std::vector<struct nixl_meta_desc> items;
        struct nixl_list list;
    };

    static struct nixl_list list_of(nixl_mem_t mem, std::uint32_t form, const void *items,
                                    std::size_t count) {
        struct nixl_list list = NIXL_LIST_INIT;
        list.mem = mem;
        list.form = form;
        list.items = items;
        list.count = count;
        return list;
    }

    static struct nixl_list plain(const nixl_xfer_dlist_t &descs) {
        return list_of(descs.getType(), NIXL_FORM_PLAIN, descs.data(),
                       static_cast<std::size_t>(descs.descCount()));
    }

    static struct nixl_list strided(const nixl_stride_dlist_t &descs) {
        return list_of(descs.getType(), NIXL_FORM_STRIDED, descs.data(),
                       static_cast<std::size_t>(descs.descCount()));
    }

    nixl_status_t prepare(const std::string &owner, const struct nixl_list &list, nixlDlistH *&dlist_hndl,
                          const nixl_opt_args_t *extra_params) const {
        dlist_hndl = nullptr;
        return guarded([&] {
            const Options options(extra_params);
            struct nixl_dlist *made = nullptr;
            const nixl_status_t status =
                nixl_dlist_prepare(agent_, owner.c_str(), &list, options.get(), &made);
            dlist_hndl = reinterpret_cast<nixlDlistH *>(made);
            return status;
        });
    }

    static nixl_mem_list_t kinds(std::uint32_t mems) {
        nixl_mem_list_t list;
        for (unsigned kind = 0; kind < NIXL_MEM_KINDS; kind++) {
            if ((mems >> kind & 1u) != 0) {
                list.push_back(static_cast<nixl_mem_t>(kind));
            }
        }
        return list;
    }

    static nixl_b_params_t map_of(const struct nixl_params &params) {
        nixl_b_params_t map;
        for (std::size_t i = 0; i < params.count; i++) {
            map[params.items[i].key] = params.items[i].value;
        }
        return map;
    }

    static std::chrono::microseconds microseconds(std::uint64_t ns) {
        return std::chrono::microseconds(static_cast<std::int64_t>(ns / 1000 + (ns % 1000 != 0)));
    }

    // The one handle that stands for a backend of this agent.
    nixlBackendH *handle_of(struct nixl_backend *backend) const {
        const std::lock_guard<std::mutex> guard(data_->lock);
        for (nixlBackendH &known : data_->backends) {
            if (known.native() == backend) {
                return &known;
            }
        }
        return &data_->backends.emplace_back(backend);
    }

    // No method lets an exception out: what can be thrown here is want of memory.
    template <class Call> static nixl_status_t guarded(Call call) noexcept {
        try {
            return call();
        } catch (...) {
            return NIXL_ERR_BACKEND;
        }
    }

    struct nixl_agent *agent_ = nullptr;
    std::unique_ptr<Data> data_;
};

#endif
