/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nixl_descriptors.h - descriptors and lists of them. nixlBasicDesc and nixlStrideDesc have the layout of struct
 * nixl_desc and struct nixl_strided_desc, so that the agent reads a list where it lies.
 */
#ifndef NIXL_CPP_DESCRIPTORS_H
#define NIXL_CPP_DESCRIPTORS_H

#include "nixl_types.h"
#include "utils/serdes/serdes.h"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <type_traits>
#include <utility>

class nixlBasicDesc {
  public:
    std::uintptr_t addr = 0;
    std::size_t len = 0;
    std::uint64_t devId = 0;

    nixlBasicDesc() = default;

    nixlBasicDesc(const std::uintptr_t &address, const std::size_t &length, const std::uint64_t &dev_id)
        : addr(address), len(length), devId(dev_id) {}

    // From what serialize() gave; all zero when that is too short.
    nixlBasicDesc(const nixl_blob_t &str) {
        if (str.size() >= bytes) {
            addr = static_cast<std::uintptr_t>(number(str, 0));
            len = static_cast<std::size_t>(number(str, 8));
            devId = number(str, 16);
        }
    }

    // By device, then address, then length.
    bool operator<(const nixlBasicDesc &desc) const noexcept {
        if (devId != desc.devId) {
            return devId < desc.devId;
        }
        if (addr != desc.addr) {
            return addr < desc.addr;
        }
        return len < desc.len;
    }

    friend bool operator==(const nixlBasicDesc &lhs, const nixlBasicDesc &rhs) noexcept {
        return lhs.addr == rhs.addr && lhs.len == rhs.len && lhs.devId == rhs.devId;
    }

    friend bool operator!=(const nixlBasicDesc &lhs, const nixlBasicDesc &rhs) noexcept {
        return !(lhs == rhs);
    }

    // Is every byte of `query` one of these? A block that would wrap around is covered by none.
    bool covers(const nixlBasicDesc &query) const noexcept {
        return devId == query.devId && addr <= query.addr && query.addr - addr <= len &&
               query.len <= len - (query.addr - addr);
    }

    // Is there a byte in both?
    bool overlaps(const nixlBasicDesc &query) const noexcept {
        if (devId != query.devId) {
            return false;
        }
        return addr <= query.addr ? query.addr - addr < len && query.len > 0
                                  : addr - query.addr < query.len && len > 0;
    }

    // 24 bytes: the three numbers, little-endian.
    nixl_blob_t serialize() const {
        nixl_blob_t str;
        str.reserve(bytes);
        for (const std::uint64_t value :
             {static_cast<std::uint64_t>(addr), static_cast<std::uint64_t>(len), devId}) {
            for (unsigned shift = 0; shift < 64; shift += 8) {
                str += static_cast<char>(static_cast<unsigned char>(value >> shift));
            }
        }
        return str;
    }

    void print(const std::string &suffix) const { std::cout << text() << suffix << "\n"; }

    // "address 0x10, 4096 bytes, device 0"
    std::string text() const {
        std::ostringstream out;
        out << "address 0x" << std::hex << addr << std::dec << ", " << len << " bytes, device " << devId;
        return out.str();
    }

  protected:
    static constexpr std::size_t bytes = 24;

    static std::string rest(const nixl_blob_t &str) {
        return str.size() > bytes ? str.substr(bytes) : std::string();
    }

  private:
    static std::uint64_t number(const std::string &str, std::size_t at) {
        std::uint64_t value = 0;
        for (std::size_t i = 8; i > 0; i--) {
            value = value << 8 | static_cast<unsigned char>(str[at + i - 1]);
        }
        return value;
    }
};

// `count` blocks, the next one `stride` bytes after the last one's start.
struct nixlStrideDesc : public nixlBasicDesc {
    std::uint64_t stride = 0;
    std::uint64_t count = 0;

    using nixlBasicDesc::nixlBasicDesc;

    nixlStrideDesc() = default;

    nixlStrideDesc(const std::uintptr_t &address, const std::size_t &length, const std::uint64_t &dev_id,
                   const std::size_t &block_stride, const std::size_t &block_count)
        : nixlBasicDesc(address, length, dev_id), stride(block_stride), count(block_count) {}

    friend bool operator==(const nixlStrideDesc &lhs, const nixlStrideDesc &rhs) noexcept {
        return static_cast<const nixlBasicDesc &>(lhs) == static_cast<const nixlBasicDesc &>(rhs) &&
               lhs.stride == rhs.stride && lhs.count == rhs.count;
    }

    friend bool operator!=(const nixlStrideDesc &lhs, const nixlStrideDesc &rhs) noexcept {
        return !(lhs == rhs);
    }
};

// A block with metadata bytes for the backend.
class nixlBlobDesc : public nixlBasicDesc {
  public:
    nixl_blob_t metaInfo;

    using nixlBasicDesc::nixlBasicDesc;

    nixlBlobDesc() = default;

    nixlBlobDesc(const std::uintptr_t &address, const std::size_t &length, const std::uint64_t &dev_id,
                 const nixl_blob_t &meta_info)
        : nixlBasicDesc(address, length, dev_id), metaInfo(meta_info) {}

    nixlBlobDesc(const nixlBasicDesc &desc, const nixl_blob_t &meta_info)
        : nixlBasicDesc(desc), metaInfo(meta_info) {}

    nixlBlobDesc(const nixl_blob_t &str) : nixlBasicDesc(str), metaInfo(rest(str)) {}

    friend bool operator==(const nixlBlobDesc &lhs, const nixlBlobDesc &rhs) noexcept {
        return static_cast<const nixlBasicDesc &>(lhs) == static_cast<const nixlBasicDesc &>(rhs) &&
               lhs.metaInfo == rhs.metaInfo;
    }

    friend bool operator!=(const nixlBlobDesc &lhs, const nixlBlobDesc &rhs) noexcept {
        return !(lhs == rhs);
    }

    nixl_blob_t serialize() const { return nixlBasicDesc::serialize() + metaInfo; }

    void print(const std::string &suffix) const {
        std::cout << text() << ", " << metaInfo.size() << " bytes of metadata" << suffix << "\n";
    }
};

// A block of a named agent; nixl_null_agent makes it an empty slot.
struct nixlRemoteDesc : public nixlBasicDesc {
    std::string remoteAgent;

    using nixlBasicDesc::nixlBasicDesc;

    nixlRemoteDesc() = default;

    nixlRemoteDesc(const std::uintptr_t address, const std::size_t length, const std::uint64_t dev_id,
                   const std::string &remote_agent)
        : nixlBasicDesc(address, length, dev_id), remoteAgent(remote_agent) {}

    nixlRemoteDesc(const nixlBasicDesc &desc, const std::string &remote_agent)
        : nixlBasicDesc(desc), remoteAgent(remote_agent) {}

    explicit nixlRemoteDesc(const nixl_blob_t &str) : nixlBasicDesc(str), remoteAgent(rest(str)) {}

    friend bool operator==(const nixlRemoteDesc &lhs, const nixlRemoteDesc &rhs) noexcept {
        return static_cast<const nixlBasicDesc &>(lhs) == static_cast<const nixlBasicDesc &>(rhs) &&
               lhs.remoteAgent == rhs.remoteAgent;
    }

    friend bool operator!=(const nixlRemoteDesc &lhs, const nixlRemoteDesc &rhs) noexcept {
        return !(lhs == rhs);
    }

    nixl_blob_t serialize() const { return nixlBasicDesc::serialize() + remoteAgent; }

    void print(const std::string &suffix) const {
        std::cout << text() << ", agent " << remoteAgent << suffix << "\n";
    }
};

static_assert(sizeof(nixlBasicDesc) == sizeof(struct nixl_desc), "a descriptor is a row of the C interface");
static_assert(sizeof(nixlStrideDesc) == sizeof(struct nixl_strided_desc), "and so is a strided one");

template <class T> class nixlDescList {
  protected:
    nixl_mem_t type;
    std::vector<T> descs;

  public:
    nixlDescList(const nixl_mem_t &mem_type, const int &init_size = 0)
        : type(mem_type), descs(init_size > 0 ? static_cast<std::size_t>(init_size) : 0) {}

    // Reads what serialize() wrote; an empty list when it cannot be read.
    nixlDescList(nixlSerDes *deserializer) : type(DRAM_SEG) {
        if (deserializer && !read(*deserializer)) {
            descs.clear();
        }
    }

    nixlDescList(const nixlDescList &) = default;
    nixlDescList(nixlDescList &&) = default;
    nixlDescList &operator=(const nixlDescList &) = default;
    nixlDescList &operator=(nixlDescList &&) = default;
    virtual ~nixlDescList() = default;

    nixl_mem_t getType() const { return type; }

    int descCount() const { return static_cast<int>(descs.size()); }

    bool isEmpty() const noexcept { return descs.empty(); }

    const T &operator[](std::size_t index) const { return descs[index]; }

    T &operator[](std::size_t index) { return descs[index]; }

    typename std::vector<T>::const_iterator begin() const { return descs.begin(); }

    typename std::vector<T>::const_iterator end() const { return descs.end(); }

    typename std::vector<T>::iterator begin() { return descs.begin(); }

    typename std::vector<T>::iterator end() { return descs.end(); }

    // The descriptors in one block of memory.
    const T *data() const { return descs.data(); }

    // Metadata and agent names do not count, as in the reference.
    friend bool operator==(const nixlDescList &lhs, const nixlDescList &rhs) {
        return lhs.type == rhs.type && lhs.descs.size() == rhs.descs.size() &&
               std::equal(lhs.begin(), lhs.end(), rhs.begin(),
                          [](const nixlBasicDesc &one, const nixlBasicDesc &other) { return one == other; });
    }

    friend bool operator!=(const nixlDescList &lhs, const nixlDescList &rhs) { return !(lhs == rhs); }

    virtual void resize(const std::size_t &count) { descs.resize(count); }

    void reserve(std::size_t count) { descs.reserve(count); }

    void clear() { descs.clear(); }

    virtual void addDesc(const T &desc) { descs.push_back(desc); }

    virtual void addDesc(T &&desc) { descs.push_back(std::move(desc)); }

    template <class... Args> T &emplace(Args &&...args) {
        return descs.emplace_back(std::forward<Args>(args)...);
    }

    // Throws std::out_of_range when there is no such index.
    void remDesc(const int &index) {
        if (index < 0 || static_cast<std::size_t>(index) >= descs.size()) {
            throw std::out_of_range("descriptor " + std::to_string(index) + " of a list of " +
                                    std::to_string(descs.size()));
        }
        descs.erase(descs.begin() + index);
    }

    nixlDescList<nixlBasicDesc> trim() const {
        nixlDescList<nixlBasicDesc> trimmed(type);
        trimmed.reserve(descs.size());
        for (const T &desc : descs) {
            trimmed.addDesc(static_cast<const nixlBasicDesc &>(desc));
        }
        return trimmed;
    }

    // The first descriptor of that address, length and device, or NIXL_ERR_NOT_FOUND.
    virtual int getIndex(const nixlBasicDesc &query) const {
        for (std::size_t i = 0; i < descs.size(); i++) {
            if (static_cast<const nixlBasicDesc &>(descs[i]) == query) {
                return static_cast<int>(i);
            }
        }
        return static_cast<int>(NIXL_ERR_NOT_FOUND);
    }

    // The bytes of the reference. Fails: INVALID_PARAM, NOT_SUPPORTED (strided lists have no such form).
    nixl_status_t serialize(nixlSerDes *serializer) const {
        if (!serializer) {
            return NIXL_ERR_INVALID_PARAM;
        }
        if (std::is_same<T, nixlStrideDesc>::value) {
            return NIXL_ERR_NOT_SUPPORTED;
        }
        const std::string kind = little(static_cast<std::uint64_t>(type), 4), count = little(descs.size(), 8);
        nixl_status_t status = serializer->addStr("nixlDList", is_plain ? "nixlBDList" : "nixlSDList");
        if (status == NIXL_SUCCESS) {
            status = serializer->addStr("t", kind);
        }
        if (status == NIXL_SUCCESS) {
            status = serializer->addStr("n", count);
        }
        if (is_plain) {
            if (status == NIXL_SUCCESS && !descs.empty()) {
                nixl_blob_t all;
                for (const T &desc : descs) {
                    all += desc.serialize();
                }
                status = serializer->addStr("", all);
            }
            return status;
        }
        for (std::size_t i = 0; i < descs.size() && status == NIXL_SUCCESS; i++) {
            status = serializer->addStr("", descs[i].serialize());
        }
        return status;
    }

    void print() const { std::cout << to_string(); }

    std::string to_string(bool compact = false) const {
        std::ostringstream out;
        out << descs.size() << " descriptors of " << nixl_mem_string(type) << (compact ? ": " : "\n");
        for (std::size_t i = 0; i < descs.size(); i++) {
            if (compact) {
                out << (i ? ", " : "") << "(0x" << std::hex << descs[i].addr << std::dec << ", "
                    << descs[i].len << ", " << descs[i].devId << ")";
            } else {
                out << "  " << i << ": " << descs[i].text() << "\n";
            }
        }
        return out.str();
    }

  private:
    static constexpr bool is_plain = std::is_same<T, nixlBasicDesc>::value;

    static std::string little(std::uint64_t value, unsigned bytes) {
        std::string str;
        for (unsigned i = 0; i < bytes; i++) {
            str += static_cast<char>(static_cast<unsigned char>(value >> 8 * i));
        }
        return str;
    }

    static std::uint64_t little(const std::string &str) {
        std::uint64_t value = 0;
        for (std::size_t i = str.size(); i > 0; i--) {
            value = value << 8 | static_cast<unsigned char>(str[i - 1]);
        }
        return value;
    }

    bool read(nixlSerDes &from) {
        if (from.getStr("nixlDList") != (is_plain ? "nixlBDList" : "nixlSDList")) {
            return false;
        }
        const std::string kind = from.getStr("t"), count_bytes = from.getStr("n");
        if (kind.size() != 4 || count_bytes.size() != 8 || little(kind) > FILE_SEG) {
            return false;
        }
        type = static_cast<nixl_mem_t>(little(kind));
        const std::uint64_t count = little(count_bytes);
        if (count == 0) {
            return true;
        }
        if (is_plain) {
            const std::string all = from.getStr("");
            if (all.size() % 24 != 0 || all.size() / 24 != count) {
                return false;
            }
            for (std::size_t at = 0; at < all.size(); at += 24) {
                descs.emplace_back(T(all.substr(at, 24)));
            }
            return true;
        }
        // Memory grows with what is there, not with what the count claims.
        for (std::uint64_t i = 0; i < count; i++) {
            const std::string one = from.getStr("");
            if (one.size() < 24) {
                return false;
            }
            descs.emplace_back(T(one));
        }
        return true;
    }
};

using nixl_xfer_dlist_t = nixlDescList<nixlBasicDesc>;
using nixl_stride_dlist_t = nixlDescList<nixlStrideDesc>;
using nixl_reg_dlist_t = nixlDescList<nixlBlobDesc>;
using nixl_remote_dlist_t = nixlDescList<nixlRemoteDesc>;
using nixl_local_dlist_t = nixlDescList<nixlBasicDesc>;

#endif
