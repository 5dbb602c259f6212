// SPDX-License-Identifier: Apache-2.0
// Prints the events of an agent as they come: the agent runs with NIXL_TELEMETRY_ENABLE=y and NIXL_TELEMETRY_DIR=dir,
// and writes dir/<agent's name>.      telemetry_reader FILE [--once]
// One reader a file: what it has read is gone from there.
#include <telemetry_event.h>

#include <atomic>
#include <chrono>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

static volatile std::sig_atomic_t is_over = 0;

static void end(int) {
    is_over = 1;
}

// The file in memory. Nothing in it is trusted before it was compared with the file's size.
class Ring {
  public:
    explicit Ring(const char *path) {
        struct stat file;
        const int fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &file) != 0) {
            problem_ = std::string("cannot open it: ") + std::strerror(errno);
        } else if (static_cast<std::size_t>(file.st_size) < sizeof(nixlTelemetryFileHeader)) {
            problem_ = "it is too short";
        } else {
            size_ = static_cast<std::size_t>(file.st_size);
            map_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        }
        if (fd >= 0) {
            close(fd);
        }
        if (map_ != MAP_FAILED) {
            const nixlTelemetryFileHeader *header = static_cast<nixlTelemetryFileHeader *>(map_);
            const std::size_t room = (size_ - sizeof *header) / sizeof(nixlTelemetryEvent);
            capacity_ = header->capacity;
            if (header->version != TELEMETRY_VERSION) {
                problem_ = "it has version " + std::to_string(header->version) + ", not 4";
            } else if (capacity_ == 0 || (capacity_ & (capacity_ - 1)) != 0 || capacity_ > room) {
                problem_ = "its capacity cannot be " + std::to_string(capacity_);
            }
        }
    }

    ~Ring() {
        if (map_ != MAP_FAILED) {
            munmap(map_, size_);
        }
    }

    Ring(const Ring &) = delete;
    Ring &operator=(const Ring &) = delete;

    const std::string &problem() const { return problem_; }

    // The writer stores its position after the event: acquire sees the event. Ours frees the place: release.
    bool pop(nixlTelemetryEvent &event) {
        auto *header = static_cast<nixlTelemetryFileHeader *>(map_);
        const std::uint64_t at = header->read_pos & (capacity_ - 1);
        if (__atomic_load_n(&header->write_pos, __ATOMIC_ACQUIRE) == header->read_pos) {
            return false;
        }
        event = reinterpret_cast<nixlTelemetryEvent *>(header + 1)[at];
        __atomic_store_n(&header->read_pos, (at + 1) & (capacity_ - 1), __ATOMIC_RELEASE);
        return true;
    }

  private:
    void *map_ = MAP_FAILED;
    std::size_t size_ = 0;
    std::uint64_t capacity_ = 0;
    std::string problem_;
};

int main(int argc, char **argv) {
    if (argc < 2) {
        std::cerr << "usage: telemetry_reader FILE [--once]\n";
        return 2;
    }
    const bool once = argc > 2 && std::strcmp(argv[2], "--once") == 0;
    Ring ring(argv[1]);
    if (!ring.problem().empty()) {
        std::cerr << argv[1] << ": " << ring.problem() << "\n";
        return 1;
    }
    std::signal(SIGINT, end);
    std::signal(SIGTERM, end);
    nixlTelemetryEvent event;
    do {
        while (ring.pop(event)) {
            std::cout << nixlEnumStrings::telemetryEventTypeStr(event.eventType_) << " " << event.value_
                      << std::endl;
        }
        if (!once) {
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
    } while (!once && !is_over);
    return 0;
}
