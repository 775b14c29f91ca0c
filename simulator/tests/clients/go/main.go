// Copyright (c) 2026, the gpufleet.node authors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// A client of go-nvml: enables MIG mode on GPU 1, creates an instance at a place, and lists GPUs and MIG devices.
package main

import (
	"fmt"
	"log"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func must[T any](value T, code nvml.Return) T {
	if code != nvml.SUCCESS {
		log.Panic(nvml.ErrorString(code))
	}
	return value
}

func main() {
	must(0, nvml.Init())
	defer nvml.Shutdown()

	gpu := must(nvml.DeviceGetHandleByIndex(1))
	must(gpu.SetMigMode(nvml.DEVICE_MIG_ENABLE))
	profile := must(gpu.GetGpuInstanceProfileInfo(nvml.GPU_INSTANCE_PROFILE_3_SLICE))
	place := nvml.GpuInstancePlacement{Start: 4, Size: 4}
	instance := must(gpu.CreateGpuInstanceWithPlacement(&profile, &place))
	compute := must(instance.GetComputeInstanceProfileInfo(
		nvml.COMPUTE_INSTANCE_PROFILE_3_SLICE, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED))
	must(instance.CreateComputeInstance(&compute))
	_, code := gpu.CreateGpuInstanceWithPlacement(&profile, &place)
	fmt.Println("again:", nvml.ErrorString(code))

	fmt.Println("driver:", must(nvml.SystemGetDriverVersion()))
	for index := range must(nvml.DeviceGetCount()) {
		gpu := must(nvml.DeviceGetHandleByIndex(index))
		current, _, code := gpu.GetMigMode()
		must(0, code)
		fmt.Println(must(gpu.GetUUID()), must(gpu.GetName()), current)
		for device := range must(gpu.GetMaxMigDeviceCount()) {
			mig, code := gpu.GetMigDeviceHandleByIndex(device)
			if code == nvml.ERROR_NOT_FOUND {
				continue
			}
			fmt.Println(must(must(mig, code).GetUUID()), must(mig.GetName()))
		}
	}
}
