/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serdes.h - tagged fields in one string: "nixlSerDes|" and then, for each, its tag, a length of 8 bytes, that many
 * bytes and "|". Fields are read in the order in which they were written. Every length is checked against what is left
 * before it is used. Integers are little-endian, whatever the machine.
 */
#ifndef NIXL_CPP_SERDES_H
#define NIXL_CPP_SERDES_H

#include "../../nixl_types.h"

#include <cstring>
#include <sys/types.h>

class nixlSerDes {
  public:
    nixlSerDes() : bytes_(prefix()), at_(prefix().size()) {}

    nixl_status_t addStr(const std::string &tag, const std::string &str) {
        return addBuf(tag, str.data(), static_cast<ssize_t>(str.size()));
    }

    // Fails: INVALID_PARAM (negative length, no bytes), MISMATCH (this object was imported).
    nixl_status_t addBuf(const std::string &tag, const void *buf, ssize_t len) {
        if (len < 0 || (buf == nullptr && len > 0)) {
            return NIXL_ERR_INVALID_PARAM;
        }
        if (is_imported_) {
            return NIXL_ERR_MISMATCH;
        }
        bytes_ += tag;
        for (unsigned shift = 0; shift < 64; shift += 8) {
            bytes_ += static_cast<char>(static_cast<unsigned char>(static_cast<std::uint64_t>(len) >> shift));
        }
        if (len > 0) {
            bytes_.append(static_cast<const char *>(buf), static_cast<std::size_t>(len));
        }
        bytes_ += '|';
        return NIXL_SUCCESS;
    }

    // The next field's bytes, "" when the next field has another tag or is cut short.
    std::string getStr(const std::string &tag) {
        std::size_t from, len;
        if (!field(tag, from, len)) {
            return "";
        }
        at_ = from + len + 1;
        return bytes_.substr(from, len);
    }

    // The next field's length, NIXL_ERR_MISMATCH when it has another tag or is cut short.
    ssize_t getBufLen(const std::string &tag) const {
        std::size_t from, len;
        return field(tag, from, len) ? static_cast<ssize_t>(len) : static_cast<ssize_t>(NIXL_ERR_MISMATCH);
    }

    // Fails: MISMATCH (another tag, another length, cut short).
    nixl_status_t getBuf(const std::string &tag, void *buf, ssize_t len) {
        std::size_t from, have;
        if (!field(tag, from, have) || len < 0 || have != static_cast<std::size_t>(len) ||
            (buf == nullptr && len > 0)) {
            return NIXL_ERR_MISMATCH;
        }
        if (have > 0) {
            std::memcpy(buf, bytes_.data() + from, have);
        }
        at_ = from + have + 1;
        return NIXL_SUCCESS;
    }

    std::string exportStr() const { return bytes_; }

    // Fails: MISMATCH (not such a string; the object stays as it was).
    nixl_status_t importStr(const std::string &sdbuf) {
        if (sdbuf.compare(0, prefix().size(), prefix()) != 0) {
            return NIXL_ERR_MISMATCH;
        }
        bytes_ = sdbuf;
        at_ = prefix().size();
        is_imported_ = true;
        return NIXL_SUCCESS;
    }

    static std::string _bytesToString(const void *buf, ssize_t size) {
        return std::string(static_cast<const char *>(buf), static_cast<std::size_t>(size));
    }

    static void _stringToBytes(void *fill_buf, const std::string &s, ssize_t size) {
        std::memcpy(fill_buf, s.data(), static_cast<std::size_t>(size));
    }

  private:
    static const std::string &prefix() {
        static const std::string text = "nixlSerDes|";
        return text;
    }

    // Where the next field's bytes are, if it has that tag and is all there with its end.
    bool field(const std::string &tag, std::size_t &from, std::size_t &len) const {
        if (bytes_.size() - at_ < tag.size() + 8 || bytes_.compare(at_, tag.size(), tag) != 0) {
            return false;
        }
        from = at_ + tag.size() + 8;
        std::uint64_t count = 0;
        for (std::size_t i = 8; i > 0; i--) {
            count = count << 8 | static_cast<unsigned char>(bytes_[from - 9 + i]);
        }
        if (count >= bytes_.size() - from) {
            return false;
        }
        len = static_cast<std::size_t>(count);
        return true;
    }

    std::string bytes_;
    std::size_t at_; // never past the end
    bool is_imported_ = false;
};

#endif
