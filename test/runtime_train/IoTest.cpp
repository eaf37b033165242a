#include "base/Failpoint.h"
#include "runtime/io/Npy.h"
#include "runtime/io/OutputFile.h"
#include "runtime/io/Safetensors.h"
#include "test/runtime_train/TempFolder.h"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

using namespace zc;
using namespace zc::io;
using namespace zc::test;

//===- Files -----------------------------------------------------------------===//

TEST(File, ReadsInsideItsBoundsOnly) {
  TempFolder folder;
  auto file = File::open(folder.write("a", "0123456789"));
  ASSERT_OK(file);
  char buffer[4] = {};
  ASSERT_OK(file->readAt(buffer, 4, 6));
  EXPECT_EQ(std::string(buffer, 4), "6789");
  EXPECT_EQ(file->readAt(buffer, 4, 7).error().code, Code::badInput);
  EXPECT_EQ(file->readAt(buffer, 4, INT64_MAX).error().code, Code::badInput);
  EXPECT_EQ(file->readAt(buffer, -1, 0).error().code, Code::badInput);
}

TEST(File, RefusesWhatIsNoRegularFile) {
  TempFolder folder;
  std::string fifo = folder.path + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string &path : {fifo, folder.path, folder.path + "/missing", std::string("/dev/zero"), std::string()})
    EXPECT_EQ(File::open(path).error().code, Code::badInput) << path;
}

TEST(File, ShrinkingFileIsAnError) {
  TempFolder folder;
  std::string path = folder.write("a", "0123456789");
  auto file = File::open(path);
  ASSERT_OK(file);
  ASSERT_EQ(::truncate(path.c_str(), 5), 0);
  char buffer[10];
  EXPECT_EQ(file->readAt(buffer, 10, 0).error().code, Code::io);
}

/// Of what is too long to be read whole, the first and the last byte count.
TEST(File, AFingerprintSeesBothEnds) {
  TempFolder folder;
  const int64_t count = (int64_t(64) << 20) + 12345;
  std::vector<uint64_t> prints;
  for (int64_t changed : {int64_t(-1), int64_t(0), count - 1}) {
    std::string path = folder.write("big", "");
    ASSERT_EQ(::truncate(path.c_str(), count), 0);
    if (changed >= 0) {
      std::fstream out(path, std::ios::in | std::ios::out | std::ios::binary);
      out.seekp(changed);
      out.put('x');
    }
    auto file = File::open(path);
    ASSERT_OK(file);
    auto print = fingerprintOf(*file, 0, count);
    ASSERT_OK(print);
    EXPECT_EQ(std::count(prints.begin(), prints.end(), *print), 0) << "byte " << changed << " does not count";
    prints.push_back(*print);
  }
}

TEST(File, StaysBeneathTheFolder) {
  TempFolder folder;
  std::filesystem::create_directories(folder.path + "/model/sub");
  folder.write("secret", "s");
  folder.write("model/sub/data", "d");
  std::filesystem::create_symlink("../secret", folder.path + "/model/link");
  std::filesystem::create_symlink("..", folder.path + "/model/up");
  std::string model = folder.path + "/model";
  ASSERT_OK(File::openBeneath(model, "sub/data"));
  for (const char *name : {"../secret", "sub/../../secret", "link", "up/secret", "/etc/passwd", "", ".", "sub", "none"})
    EXPECT_EQ(File::openBeneath(model, name).error().code, Code::badInput) << name;
}

TEST(File, CountsItsOwnNamesAndNotThoseOfItsPlace) {
  TempFolder folder;
  const std::string path = folder.write("data", "d"), other = folder.write("other", "o");
  std::filesystem::create_hard_link(other, folder.path + "/linked");
  auto file = File::openBeneath(folder.path, "data");
  ASSERT_OK(file);
  std::filesystem::rename(other, path); // another file has the name by now
  EXPECT_EQ(file->hardLinks(), 1u);
  EXPECT_EQ(File::openBeneath(folder.path, "data")->hardLinks(), 2u);
}

TEST(OutputFile, AppearsCompleteOrNotAtAll) {
  TempFolder folder;
  std::string path = folder.write("out", "old");
  {
    auto file = OutputFile::create(path);
    ASSERT_OK(file);
    ASSERT_OK(file->write("new", 3));
    EXPECT_EQ(folder.read("out"), "old");
  }
  EXPECT_EQ(folder.read("out"), "old");
  EXPECT_EQ(folder.count(), 1u) << "the temporary file is left behind";
  auto file = OutputFile::create(path);
  ASSERT_OK(file);
  ASSERT_OK(file->write("newer", 5));
  ASSERT_OK(file->writeAt("N", 1, 0));
  ASSERT_OK(file->commit());
  EXPECT_EQ(folder.read("out"), "Newer");
  EXPECT_EQ(folder.count(), 1u);
}

TEST(OutputFile, FullDiskIsAnIoError) {
  TempFolder folder;
  // A file size limit with SIGXFSZ ignored gives a short write and then EFBIG, as a full disk gives ENOSPC.
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit limited = {1000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  Status status;
  {
    auto file = OutputFile::create(folder.path + "/out");
    ASSERT_OK(file);
    status = file->write(std::string(5000, 'x').data(), 5000);
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_DFL);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, Code::io);
  EXPECT_EQ(folder.count(), 0u);
}

TEST(OutputFile, WholeFilesAreReplacedOrNotAtAll) {
  TempFolder folder;
  std::string path = folder.path + "/f";
  ASSERT_OK(writeFileAtomically(path, "old"));
  ASSERT_OK(writeFileAtomically(path, std::string("n\0w", 3)));
  EXPECT_EQ(folder.read("f"), std::string("n\0w", 3));
  EXPECT_EQ(folder.count(), 1u);
  EXPECT_EQ(writeFileAtomically(folder.path + "/no/f", "x").error().code, Code::io);
  std::filesystem::create_directory(folder.path + "/d");
  EXPECT_EQ(writeFileAtomically(folder.path + "/d", "x").error().code, Code::io);
  EXPECT_EQ(folder.count(), 2u) << "a temporary was left behind";
}

TEST(OutputFile, WhatMayNotBeOnDiskIsAnError) {
  TempFolder folder;
  std::string path = folder.write("f", "old");
  for (const char *site : {"file.create", "file.write", "file.fsync", "file.rename", "folder.open", "folder.fsync"}) {
    ASSERT_OK(setFailpoints(std::string(site) + ":EIO"));
    Status status = writeFileAtomically(path, site);
    ASSERT_OK(setFailpoints(""));
    ASSERT_FALSE(status.ok()) << site;
    EXPECT_EQ(status.error().code, Code::io) << site;
    bool isReplaced = std::string(site).rfind("folder", 0) == 0;
    EXPECT_EQ(folder.read("f"), isReplaced ? site : "old");
    EXPECT_EQ(folder.count(), 1u) << site;
  }
}

TEST(OutputFile, SpaceIsTakenThoughASignalComesInBetween) {
  TempFolder folder;
  auto file = OutputFile::create(folder.path + "/f");
  ASSERT_OK(file);
  ASSERT_OK(setFailpoints("file.allocate@n=1:EINTR"));
  Status status = file->reserve(5000);
  ASSERT_OK(setFailpoints(""));
  ASSERT_OK(status);
  ASSERT_OK(file->commit());
  EXPECT_EQ(folder.read("f").size(), 5000u);
}

TEST(OutputFile, ADeviceOrFifoIsWrittenToNotReplaced) {
  TempFolder folder;
  std::string fifo = folder.path + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(writeFileAtomically(fifo, "abc").ok());
  char bytes[4] = {};
  EXPECT_EQ(::read(reader, bytes, sizeof bytes), 3);
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  EXPECT_EQ(folder.count(), 1u);
}

/// As "-o /dev/stdout > file" means: the link stays, which is everybody's.
TEST(OutputFile, WhatIsOpenAlreadyIsWrittenToNotReplaced) {
  TempFolder folder;
  const std::string path = folder.write("f", ""), link = folder.path + "/stdout";
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(fd), folder.path + "/open");
  std::filesystem::create_symlink("open", link);
  ASSERT_OK(writeFileAtomically(link, "abc"));
  ASSERT_OK(writeFileAtomically(link, "def"));
  EXPECT_EQ(folder.read("f"), "abcdef");
  EXPECT_EQ(OutputFile::create(link).error().number, 837);
  ::close(fd);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  std::filesystem::create_symlink("f", folder.path + "/link"); // of somebody's own: replaced, as ever
  ASSERT_OK(writeFileAtomically(folder.path + "/link", "new"));
  EXPECT_EQ(folder.read("f"), "abcdef");
}

//===- safetensors -------------------------------------------------------------===//

TEST(Safetensors, WritesWhatItReads) {
  TempFolder folder;
  std::string path = folder.path + "/w.safetensors";
  auto writer = SafetensorsWriter::create(
      path, {{"b", {DType::f32, {2}}}, {"a\"\n", {DType::i64, {1, 1}}}, {"empty", {DType::u8, {0, 3}}}}, {{"k", "v"}});
  ASSERT_OK(writer);
  float b[2] = {1, 2};
  int64_t a = 7;
  ASSERT_OK(writer->append(b, 8));
  ASSERT_OK(writer->append(&a, 8));
  EXPECT_FALSE(writer->append(&a, 1).ok());
  ASSERT_OK(writer->commit());
  auto file = SafetensorsFile::open(path);
  ASSERT_OK(file);
  ASSERT_EQ(file->entries().size(), 3u);
  EXPECT_EQ(file->metadata().at("k"), "v");
  const SafetensorsEntry *entry = file->find("a\"\n");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->type, (TensorType{DType::i64, {1, 1}}));
  int64_t back = 0;
  ASSERT_OK(file->file().readAt(&back, 8, entry->offset));
  EXPECT_EQ(back, 7);
}

struct Attack {
  const char *name;
  std::string bytes;
  Code code;
  const char *says;
};

static std::string one(const std::string &body) { return safetensors("{\"a\":" + body + "}", "01234567"); }

TEST(Safetensors, RefusesAttacks) {
  const std::string good = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  auto two = [](const char *aRange, const char *bRange, const char *bShape = "[1]") {
    return safetensors(std::string(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)") + aRange +
                           R"(},"b":{"dtype":"F32","shape":)" + bShape + R"(,"data_offsets":)" + bRange + "}}",
                       "01234567");
  };
  uint64_t huge = uint64_t(1) << 63;
  const Attack attacks[] = {
      {"empty", "", Code::badInput, "only 0 bytes"},
      {"header 0", std::string(16, '\0'), Code::badInput, "said to have 0 bytes"},
      {"header 2^63", std::string(reinterpret_cast<char *>(&huge), 8) + "{}", Code::badInput, "said to have"},
      {"header longer than file", safetensors("{}", "").replace(0, 1, "\x09"), Code::badInput, "said to have 9"},
      {"no brace", safetensors("[1]", ""), Code::badInput, "begin with '{'"},
      {"truncated JSON", safetensors("{\"a\":", ""), Code::badInput, "not valid JSON"},
      {"trailing JSON", safetensors("{}{}", ""), Code::badInput, "not valid JSON"},
      {"invalid UTF-8", safetensors("{\"\xff\":1}", ""), Code::badInput, "not valid JSON"},
      {"duplicate tensor", safetensors("{\"a\":" + good + ",\"a\":" + good + "}", "01234567"), Code::badInput, "twice"},
      {"duplicate field", one(R"({"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})"), Code::badInput,
       "twice"},
      {"duplicate metadata", safetensors(R"({"__metadata__":{"k":"1","k":"2"}})", ""), Code::badInput, "twice"},
      {"unknown field", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":[1]})"), Code::badInput, "unknown"},
      {"missing field", one(R"({"dtype":"F32","shape":[2]})"), Code::badInput, "needs dtype"},
      {"three offsets", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})"), Code::badInput, "needs dtype"},
      {"hole", two("[0,4]", "[5,9]"), Code::badInput, "bytes of data"},
      {"hole inside", two("[0,4]", "[5,8]"), Code::badInput, "needs 4 bytes"},
      {"overlap", two("[0,4]", "[2,6]"), Code::badInput, "ends at 4"},
      {"zero-size alias", two("[0,4]", "[2,2]", "[0]"), Code::badInput, "ends at 4"},
      {"trailing bytes", two("[0,4]", "[4,8]") + "x", Code::badInput, "1 bytes follow"},
      {"backwards", one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"), Code::badInput, "lies at"},
      {"size mismatch", one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"), Code::badInput, "needs 12 bytes"},
      {"overflow", one(R"({"dtype":"F32","shape":[8589934592,8589934592],"data_offsets":[0,8]})"), Code::badInput,
       "too many elements"},
      {"unknown dtype", one(R"({"dtype":"Q4","shape":[2],"data_offsets":[0,8]})"), Code::badInput, "unknown element"},
      {"foreign dtype", one(R"({"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]})"), Code::unsupported, "F8_E4M3"},
      {"float number", one(R"({"dtype":"F32","shape":[2e0],"data_offsets":[0,8]})"), Code::badInput, "not an integer"},
      {"negative number", one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"), Code::badInput, "negative"},
      {"2^64", one(R"({"dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,8]})"), Code::badInput,
       "not an integer"},
      {"rank 65",
       one(R"({"dtype":"F32","shape":[1)" +
           [] {
             std::string dims;
             for (int i = 0; i < 64; ++i)
               dims += ",1";
             return dims;
           }() +
           R"(],"data_offsets":[0,4]})"),
       Code::badInput, "more than 64"},
      {"deep", safetensors("{\"a\":" + std::string(100000, '[') + "}", ""), Code::badInput, "wrong place"},
      {"deep objects", one(R"({"dtype":{"x":{"y":1}}})"), Code::badInput, "too deep"},
      {"string for tensor", one("\"x\""), Code::badInput, "wrong place"},
  };
  TempFolder folder;
  for (const Attack &attack : attacks) {
    auto file = SafetensorsFile::open(folder.write("attack", attack.bytes));
    ASSERT_FALSE(file.ok()) << attack.name;
    EXPECT_EQ(file.error().code, attack.code) << attack.name;
    EXPECT_NE(render(file.error()).find(attack.says), std::string::npos) << attack.name << ": " << render(file.error());
  }
}

TEST(Safetensors, EveryTruncationIsRefused) {
  TempFolder folder;
  std::string good = safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "01234567");
  ASSERT_OK(SafetensorsFile::open(folder.write("good", good)));
  for (size_t n = 0; n < good.size(); ++n)
    EXPECT_FALSE(SafetensorsFile::open(folder.write("cut", good.substr(0, n))).ok()) << n;
}

//===- .npy ----------------------------------------------------------------------===//

TEST(Npy, ReadsPlainArrays) {
  TempFolder folder;
  std::string dict = "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 1), }";
  auto file = NpyFile::open(folder.write("a.npy", npy(dict, rawBytes<int64_t>({5, 6}))));
  ASSERT_OK(file);
  EXPECT_EQ(file->dtype, DType::i64);
  EXPECT_EQ(file->dims, (std::vector<int64_t>{2, 1}));
  int64_t value = 0;
  ASSERT_OK(file->file.readAt(&value, 8, file->offset + 8));
  EXPECT_EQ(value, 6);
  // Version 2 has a 32-bit header length.
  std::string two = npy(dict, rawBytes<int64_t>({5, 6}));
  two[6] = 2;
  two.insert(10, 2, '\0');
  ASSERT_OK(NpyFile::open(folder.write("b.npy", two)));
}

TEST(Npy, RefusesAttacks) {
  auto plain = [](const std::string &descr, const std::string &order, const std::string &shape) {
    return npy("{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }", "01234567");
  };
  std::string good = plain("'<f4'", "False", "(2,)");
  std::string version9 = good, hugeHeader = good, noNewline = good;
  version9[6] = 9;
  hugeHeader.replace(6, 6, std::string("\x02\x00\xff\xff\xff\xff", 6));
  noNewline[good.size() - 9] = ' ';
  const Attack attacks[] = {
      {"empty", "", Code::badInput, "only 0 bytes"},
      {"magic", "x" + good.substr(1), Code::badInput, "does not begin"},
      {"version 9", version9, Code::unsupported, "version 9.0"},
      {"4 GB header", hugeHeader, Code::badInput, "4294967295 bytes"},
      {"no newline", noNewline, Code::badInput, "newline"},
      {"object", plain("'|O'", "False", "(1,)"), Code::unsupported, "|O"},
      {"structured", plain("[('x', '<f4')]", "False", "(2,)"), Code::unsupported, "structures"},
      {"big endian", plain("'>f4'", "False", "(2,)"), Code::unsupported, "big-endian"},
      {"Fortran", plain("'<f4'", "True", "(2, 1)"), Code::unsupported, "Fortran"},
      {"complex", plain("'<c8'", "False", "(1,)"), Code::unsupported, "c8"},
      {"too short", plain("'<f4'", "False", "(3,)"), Code::badInput, "needs 12 bytes"},
      {"trailing", good + "x", Code::badInput, "9 follow"},
      {"negative", plain("'<f4'", "False", "(-2,)"), Code::badInput, "cannot be read"},
      {"overflow", plain("'<f4'", "False", "(8589934592, 8589934592)"), Code::badInput, "too many"},
      {"2^64", plain("'<f4'", "False", "(18446744073709551618,)"), Code::badInput, "cannot be read"},
      {"code", plain("__import__('os')", "False", "(2,)"), Code::badInput, "cannot be read"},
      {"key twice", npy("{'descr': '<f4', 'descr': '<f4', 'shape': (2,)}", "01234567"), Code::badInput, "cannot"},
      {"key missing", npy("{'descr': '<f4', 'shape': (2,)}", "01234567"), Code::badInput, "cannot be read"},
  };
  TempFolder folder;
  ASSERT_OK(NpyFile::open(folder.write("good", good)));
  for (const Attack &attack : attacks) {
    auto file = NpyFile::open(folder.write("attack", attack.bytes));
    ASSERT_FALSE(file.ok()) << attack.name;
    EXPECT_EQ(file.error().code, attack.code) << attack.name;
    EXPECT_NE(render(file.error()).find(attack.says), std::string::npos) << attack.name << ": " << render(file.error());
  }
}
