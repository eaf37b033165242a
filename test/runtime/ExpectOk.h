//===- ExpectOk.h - a test whose status is an error says which ------------------------------===//
#pragma once

#include "base/Status.h"

#include <gtest/gtest.h>

namespace zc::test {

inline void expectOk(const Status &status) { EXPECT_TRUE(status.ok()) << render(status.error()); }

} // namespace zc::test
