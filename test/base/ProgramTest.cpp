#include "base/Program.h"

#include <gtest/gtest.h>
#include <new>
#include <pthread.h>
#include <stdexcept>
#include <sys/resource.h>
#include <system_error>

using namespace zc;

TEST(Program, WhatIsThrownIsAnError) {
  EXPECT_TRUE(runGuarded("it", [] { return Status::success(); }).ok());
  EXPECT_EQ(runGuarded("it", [] { return Status(makeError(Code::io, 813, "full")); }).error().number, 813);
  EXPECT_EQ(runGuarded("it", []() -> Status { throw std::bad_alloc(); }).error().code, Code::budget);
  Error noThread = runGuarded("it", []() -> Status {
                     throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
                   }).error();
  EXPECT_EQ(noThread.code, Code::budget);
  EXPECT_NE(noThread.message.find("cannot start a thread"), std::string::npos) << noThread.message;
  Error defect = runGuarded("it", []() -> Status { throw std::runtime_error("odd"); }).error();
  EXPECT_EQ(defect.code, Code::internal);
  EXPECT_EQ(defect.message, "odd");
  EXPECT_NE(defect.help.find("a defect of it"), std::string::npos) << defect.help;
}

/// Whatever ulimit -s was when the process began: threads of 100 GiB each would not start.
TEST(Program, StacksAreOfOrdinarySize) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_STACK, &before), 0);
  rlimit low = {std::min<rlim_t>(before.rlim_cur, 1 << 20), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_STACK, &low), 0);
  rlim_t during = 0;
  size_t ofThreads = 0;
  EXPECT_TRUE(runGuarded("it", [&] {
                rlimit limit = {};
                pthread_attr_t attributes;
                ::getrlimit(RLIMIT_STACK, &limit);
                during = limit.rlim_cur;
                ::pthread_getattr_default_np(&attributes);
                ::pthread_attr_getstacksize(&attributes, &ofThreads);
                ::pthread_attr_destroy(&attributes);
                return Status::success();
              }).ok());
  EXPECT_EQ(during, std::min<rlim_t>(8 << 20, before.rlim_max));
  EXPECT_EQ(ofThreads, during);
  ::setrlimit(RLIMIT_STACK, &before);
}
