//===- MachinePresets.cpp - machines by name ------------------------------------------===//
//
// Rates of one rank, a GPU of a usual server of eight. Sheets give peaks; what kernels reach of them is beside each
// figure, as a factor:
//  - products: 0.7 of the dense peak of tensor cores in 16 bits, 0.8 of the peak outside of them in fp32; 0.7 of
//    the dense peak in TF32, where there is one
//  - device memory: 0.9 of the sheet's bandwidth
//  - links between GPUs: 0.8 of NVLink's bandwidth in one direction, which is half of what sheets say
//  - host to device: 0.85 of PCIe's raw rate in one direction
//  - between nodes: a network card of 400 Gb/s (V100: 100 Gb/s) per GPU, times eight, since a node's ranks share the
//    link of this model; 0.85 of it
//  - the host's memory and a node's disks: an eighth of what a server of two sockets and four NVMe disks has
//
// Sources: NVIDIA H200 data sheet (2024), H100 data sheet (2023, SXM), A100 data sheet (2021, 80 GB SXM), V100 data
// sheet (2020, SXM2 32 GB); DGX H100/H200, DGX A100 and DGX-1 user guides for links, memory and disks.
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/MachineModel.h"

using namespace zc;

namespace {

/// What the sheets say, in the units of the sheets.
struct Sheet {
  double fp32 = 0;                    ///< TF/s, without tensor cores
  double half = 0, tf32 = 0;          ///< TF/s, dense, with tensor cores; 0: there is no such mode
  double memory = 0;                  ///< GB/s
  double nvlink = 0;                  ///< GB/s, both directions
  double pcie = 0;                    ///< GB/s, one direction
  double network = 0;                 ///< Gb/s per GPU
  double host = 0;                    ///< GB/s of a server's memory
  double diskRead = 0, diskWrite = 0; ///< GB/s of a server's disks
};

constexpr int kPerServer = 8;
/// As sheets count: drivers report about 7 % more, of which CUDA's context and libraries take a part.
constexpr int64_t kGigabyte = 1'000'000'000;

constexpr MachineModel modelOf(const Sheet &s) {
  MachineModel m;
  m.flopsPerSecond = 0.8 * s.fp32 * 1e12;
  m.halfFlopsPerSecond = 0.7 * s.half * 1e12;
  m.tf32FlopsPerSecond = 0.7 * s.tf32 * 1e12;
  m.memoryBandwidth = 0.9 * s.memory * 1e9;
  m.commBandwidth = 0.8 * s.nvlink / 2 * 1e9;
  m.nodeBandwidth = 0.85 * s.network / 8 * kPerServer * 1e9;
  m.h2dBandwidth = m.d2hBandwidth = 0.85 * s.pcie * 1e9;
  m.hostMemoryBandwidth = 0.8 * s.host / kPerServer * 1e9;
  m.nvmeReadBandwidth = s.diskRead / kPerServer * 1e9;
  m.nvmeWriteBandwidth = s.diskWrite / kPerServer * 1e9;
  m.stepOverhead = 5e-6; // an event between two streams, and a launch
  return m;
}

constexpr Sheet h100() {
  Sheet s;
  s.fp32 = 67;
  s.half = 989;
  s.tf32 = 494;
  s.memory = 3350;
  s.nvlink = 900;
  s.pcie = 63;
  s.network = 400;
  s.host = 614;
  s.diskRead = 55;
  s.diskWrite = 27;
  return s;
}

/// An H100 with more and faster memory.
constexpr Sheet h200() {
  Sheet s = h100();
  s.memory = 4800;
  return s;
}

constexpr Sheet a100() {
  Sheet s;
  s.fp32 = 19.5;
  s.half = 312;
  s.tf32 = 156;
  s.memory = 2039;
  s.nvlink = 600;
  s.pcie = 31.5;
  s.network = 200;
  s.host = 410;
  s.diskRead = 25;
  s.diskWrite = 13;
  return s;
}

constexpr Sheet v100() {
  Sheet s;
  s.fp32 = 15.7;
  s.half = 125;
  s.memory = 900;
  s.nvlink = 300;
  s.pcie = 15.75;
  s.network = 50;
  s.host = 154;
  s.diskRead = 6;
  s.diskWrite = 4;
  return s;
}

constexpr MachinePreset kMachines[] = {
    {"h200", Target::cuda, modelOf(h200()), 141 * kGigabyte},
    {"h100", Target::cuda, modelOf(h100()), 80 * kGigabyte},
    {"a100-80", Target::cuda, modelOf(a100()), 80 * kGigabyte},
    {"v100-32", Target::cuda, modelOf(v100()), 32 * kGigabyte},
};

} // namespace

const MachinePreset *zc::findMachine(std::string_view name) {
  for (const MachinePreset &machine : kMachines)
    if (machine.name == name)
      return &machine;
  return nullptr;
}

std::vector<std::string> zc::machineNames() {
  std::vector<std::string> names;
  for (const MachinePreset &machine : kMachines)
    names.emplace_back(machine.name);
  return names;
}
