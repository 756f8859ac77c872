/* Writes down everything a process writes to the files of one directory, and every sync, in the order it happens.
 *
 * Loaded into a process with LD_PRELOAD; RECORD_DIRECTORY names the directory and RECORD_FILE where to write. A record is
 * a line "W path offset length", followed by that many bytes, "T path length" for a truncation, "U path" for a removal or
 * "S path" for a sync, where the path is "." for the directory itself. power.rs reads it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int out = -1;

/* The name of the file within the directory, or NULL if it is elsewhere. */
static const char *within(const char *path) {
    const char *directory = getenv("RECORD_DIRECTORY");
    size_t prefix = directory ? strlen(directory) : 0;
    if (!directory || strncmp(path, directory, prefix)) return NULL;
    if (!path[prefix]) return ".";
    if (path[prefix] != '/' || strstr(path, "-shm")) return NULL;
    return path + prefix + 1;
}

static const char *name_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return NULL;
    path[length] = 0;
    return within(path);
}

static void raw(const void *data, size_t length) {
    while (length > 0) {
        ssize_t done = syscall(SYS_write, out, data, length);
        if (done <= 0) abort();
        data = (const char *)data + done;
        length -= done;
    }
}

static void head(const char *text) {
    if (out < 0) out = open(getenv("RECORD_FILE"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    raw(text, strlen(text));
}

static ssize_t put(int fd, const void *data, size_t length, off_t offset, int seek) {
    char path[PATH_MAX], line[PATH_MAX + 64];
    const char *name = name_of(fd, path);
    if (!name) return seek ? syscall(SYS_write, fd, data, length) : syscall(SYS_pwrite64, fd, data, length, offset);
    pthread_mutex_lock(&lock);
    if (seek) offset = fcntl(fd, F_GETFL) & O_APPEND ? lseek(fd, 0, SEEK_END) : lseek(fd, 0, SEEK_CUR);
    ssize_t done = seek ? syscall(SYS_write, fd, data, length) : syscall(SYS_pwrite64, fd, data, length, offset);
    if (done > 0) {
        snprintf(line, sizeof line, "W %s %lld %zd\n", name, (long long)offset, done);
        head(line);
        raw(data, done);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t write(int fd, const void *data, size_t length) { return put(fd, data, length, 0, 1); }
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) { return put(fd, data, length, offset, 0); }
ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) { return put(fd, data, length, offset, 0); }

/* What was written before the sync began is durable when it returns; what others write meanwhile may not be. So the
 * record of the sync stands where the sync began, which needs the lock for as long as it takes. */
static int synced(int fd, long call) {
    char path[PATH_MAX], line[PATH_MAX + 64];
    const char *name = name_of(fd, path);
    if (!name) return syscall(call, fd);
    pthread_mutex_lock(&lock);
    int done = syscall(call, fd);
    if (!done) {
        snprintf(line, sizeof line, "S %s\n", name);
        head(line);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

int unlink(const char *path) {
    char line[PATH_MAX + 64];
    const char *name = within(path);
    if (!name) return syscall(SYS_unlink, path);
    pthread_mutex_lock(&lock);
    int done = syscall(SYS_unlink, path);
    if (!done) {
        snprintf(line, sizeof line, "U %s\n", name);
        head(line);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

static int cut(int fd, off_t length) {
    char path[PATH_MAX], line[PATH_MAX + 64];
    const char *name = name_of(fd, path);
    if (!name) return syscall(SYS_ftruncate, fd, length);
    pthread_mutex_lock(&lock);
    int done = syscall(SYS_ftruncate, fd, length);
    if (!done) {
        snprintf(line, sizeof line, "T %s %lld\n", name, (long long)length);
        head(line);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

int ftruncate(int fd, off_t length) { return cut(fd, length); }
int ftruncate64(int fd, off64_t length) { return cut(fd, length); }
