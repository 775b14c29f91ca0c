/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* The part of the NVML interface that the simulator implements: types, constants and struct layouts.
 * Names, sizes and version tags are NVML's (API 13); everything else is original. Types of getters
 * that only nvidia-smi needs are defined next to the getters.
 */
#ifndef NVSIM_NVML_H
#define NVSIM_NVML_H

typedef enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_ALREADY_INITIALIZED = 5,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_INSUFFICIENT_POWER = 8,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_IRQ_ISSUE = 11,
    NVML_ERROR_LIBRARY_NOT_FOUND = 12,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
    NVML_ERROR_CORRUPTED_INFOROM = 14,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_RESET_REQUIRED = 16,
    NVML_ERROR_OPERATING_SYSTEM = 17,
    NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
    NVML_ERROR_IN_USE = 19,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_NO_DATA = 21,
    NVML_ERROR_VGPU_ECC_NOT_SUPPORTED = 22,
    NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
    NVML_ERROR_FREQ_NOT_SUPPORTED = 24,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_DEPRECATED = 26,
    NVML_ERROR_NOT_READY = 27,
    NVML_ERROR_GPU_NOT_FOUND = 28,
    NVML_ERROR_INVALID_STATE = 29,
    NVML_ERROR_RESET_TYPE_NOT_SUPPORTED = 30,
    NVML_ERROR_UNKNOWN = 999
} nvmlReturn_t;

/* A versioned struct carries its size and version in its first field. */
#define NVML_VERSION_TAG(type, number) ((unsigned int)(sizeof(type) | ((unsigned int)(number) << 24)))
#define NVML_VERSION_SIZE(tag) ((tag) & 0xFFFFFF)

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlGpuInstance_st *nvmlGpuInstance_t;
typedef struct nvmlComputeInstance_st *nvmlComputeInstance_t;

#define NVML_DEVICE_UUID_BUFFER_SIZE 80
#define NVML_DEVICE_UUID_V2_BUFFER_SIZE 96
#define NVML_DEVICE_NAME_V2_BUFFER_SIZE 96
#define NVML_DEVICE_SERIAL_BUFFER_SIZE 30
#define NVML_DEVICE_PART_NUMBER_BUFFER_SIZE 80
#define NVML_DEVICE_VBIOS_VERSION_BUFFER_SIZE 32
#define NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE 80
#define NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE 80

typedef enum { NVML_FEATURE_DISABLED = 0, NVML_FEATURE_ENABLED = 1 } nvmlEnableState_t;

typedef struct {
    char busIdLegacy[16];
    unsigned int domain;
    unsigned int bus;
    unsigned int device;
    unsigned int pciDeviceId;
    unsigned int pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned int version;
    unsigned int domain;
    unsigned int bus;
    unsigned int device;
    unsigned int pciDeviceId;
    unsigned int pciSubSystemId;
    unsigned int baseClass;
    unsigned int subClass;
    char busId[32];
} nvmlPciInfoExt_v1_t;

typedef struct {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
} nvmlMemory_t;

typedef struct {
    unsigned int version;
    unsigned long long total;
    unsigned long long reserved;
    unsigned long long free;
    unsigned long long used;
} nvmlMemory_v2_t;

typedef struct {
    unsigned long long bar1Total;
    unsigned long long bar1Free;
    unsigned long long bar1Used;
} nvmlBAR1Memory_t;

enum { NVML_UUID_TYPE_ASCII = 1, NVML_UUID_TYPE_BINARY = 2 };

typedef struct {
    unsigned int version;
    unsigned int type;
    union {
        char str[41];
        unsigned char bytes[16];
    } value;
} nvmlUUID_v1_t;

/* Processes: v1, and the layout shared by v2 and v3. */
typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId;
    unsigned int computeInstanceId;
} nvmlProcessInfo_v2_t;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId;
    unsigned int computeInstanceId;
    unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;

typedef struct {
    unsigned int version;
    unsigned int mode;
    unsigned int numProcArrayEntries;
    nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_v1_t;

enum { NVML_PROCESS_MODE_COMPUTE = 0, NVML_PROCESS_MODE_GRAPHICS = 1, NVML_PROCESS_MODE_MPS = 2, NVML_PROCESS_MODE_ALL = 3 };

typedef struct {
    unsigned int multiprocessorCount;
    unsigned int sharedCopyEngineCount;
    unsigned int sharedDecoderCount;
    unsigned int sharedEncoderCount;
    unsigned int sharedJpegCount;
    unsigned int sharedOfaCount;
    unsigned int gpuInstanceSliceCount;
    unsigned int computeInstanceSliceCount;
    unsigned long long memorySizeMB;
} nvmlDeviceAttributes_t;

typedef union {
    double dVal;
    int siVal;
    unsigned int uiVal;
    unsigned long ulVal;
    unsigned long long ullVal;
    signed long long sllVal;
    unsigned short usVal;
} nvmlValue_t;

typedef enum {
    NVML_VALUE_TYPE_DOUBLE = 0,
    NVML_VALUE_TYPE_UNSIGNED_INT = 1,
    NVML_VALUE_TYPE_UNSIGNED_LONG = 2,
    NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3,
    NVML_VALUE_TYPE_SIGNED_LONG_LONG = 4,
    NVML_VALUE_TYPE_SIGNED_INT = 5,
    NVML_VALUE_TYPE_UNSIGNED_SHORT = 6
} nvmlValueType_t;

typedef struct {
    unsigned int fieldId;
    unsigned int scopeId;
    long long timestamp;
    long long latencyUsec;
    nvmlValueType_t valueType;
    nvmlReturn_t nvmlReturn;
    nvmlValue_t value;
} nvmlFieldValue_t;

#define NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED 184
#define NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE 199

/* Multi-instance GPU. */
#define NVML_DEVICE_MIG_DISABLE 0
#define NVML_DEVICE_MIG_ENABLE 1
#define NVML_GPU_INSTANCE_PROFILE_COUNT 18
#define NVML_GPU_INSTANCE_PROFILE_CAPS_P2P 1
#define NVML_GPU_INSTANCE_PROFILE_CAPS_GFX 2
#define NVML_COMPUTE_INSTANCE_PROFILE_COUNT 9
#define NVML_COMPUTE_INSTANCE_PROFILE_CAPS_GFX 1
#define NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED 0

enum {
    NVML_GPU_INSTANCE_PROFILE_1_SLICE = 0,
    NVML_GPU_INSTANCE_PROFILE_2_SLICE = 1,
    NVML_GPU_INSTANCE_PROFILE_3_SLICE = 2,
    NVML_GPU_INSTANCE_PROFILE_4_SLICE = 3,
    NVML_GPU_INSTANCE_PROFILE_7_SLICE = 4,
    NVML_GPU_INSTANCE_PROFILE_8_SLICE = 5,
    NVML_GPU_INSTANCE_PROFILE_6_SLICE = 6,
    NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1 = 7,
    NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1 = 8,
    NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2 = 9,
    NVML_GPU_INSTANCE_PROFILE_1_SLICE_GFX = 10,
    NVML_GPU_INSTANCE_PROFILE_2_SLICE_GFX = 11,
    NVML_GPU_INSTANCE_PROFILE_4_SLICE_GFX = 12,
    NVML_GPU_INSTANCE_PROFILE_1_SLICE_NO_ME = 13,
    NVML_GPU_INSTANCE_PROFILE_2_SLICE_NO_ME = 14,
    NVML_GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME = 15,
    NVML_GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME = 16,
    NVML_GPU_INSTANCE_PROFILE_3_SLICE_GFX = 17
};

enum {
    NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE = 0,
    NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE = 1,
    NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE = 2,
    NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE = 3,
    NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE = 4,
    NVML_COMPUTE_INSTANCE_PROFILE_8_SLICE = 5,
    NVML_COMPUTE_INSTANCE_PROFILE_6_SLICE = 6,
    NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1 = 7,
    NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE_NVL = 8
};

typedef struct {
    unsigned int start;
    unsigned int size;
} nvmlGpuInstancePlacement_t;

/* The fields that all versions have. */
#define NVML_GPU_INSTANCE_PROFILE_FIGURES \
    unsigned int sliceCount;              \
    unsigned int instanceCount;           \
    unsigned int multiprocessorCount;     \
    unsigned int copyEngineCount;         \
    unsigned int decoderCount;            \
    unsigned int encoderCount;            \
    unsigned int jpegCount;               \
    unsigned int ofaCount;                \
    unsigned long long memorySizeMB

typedef struct {
    unsigned int id;
    unsigned int isP2pSupported;
    NVML_GPU_INSTANCE_PROFILE_FIGURES;
} nvmlGpuInstanceProfileInfo_t;

typedef struct {
    unsigned int version;
    unsigned int id;
    unsigned int isP2pSupported;
    NVML_GPU_INSTANCE_PROFILE_FIGURES;
    char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
} nvmlGpuInstanceProfileInfo_v2_t;

typedef struct {
    unsigned int version;
    unsigned int id;
    NVML_GPU_INSTANCE_PROFILE_FIGURES;
    char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
    unsigned int capabilities;
} nvmlGpuInstanceProfileInfo_v3_t;

typedef struct {
    nvmlDevice_t device;
    unsigned int id;
    unsigned int profileId;
    nvmlGpuInstancePlacement_t placement;
} nvmlGpuInstanceInfo_t;

typedef struct {
    unsigned int start;
    unsigned int size;
} nvmlComputeInstancePlacement_t;

#define NVML_COMPUTE_INSTANCE_PROFILE_FIGURES \
    unsigned int id;                          \
    unsigned int sliceCount;                  \
    unsigned int instanceCount;               \
    unsigned int multiprocessorCount;         \
    unsigned int sharedCopyEngineCount;       \
    unsigned int sharedDecoderCount;          \
    unsigned int sharedEncoderCount;          \
    unsigned int sharedJpegCount;             \
    unsigned int sharedOfaCount

typedef struct {
    NVML_COMPUTE_INSTANCE_PROFILE_FIGURES;
} nvmlComputeInstanceProfileInfo_t;

typedef struct {
    unsigned int version;
    NVML_COMPUTE_INSTANCE_PROFILE_FIGURES;
    char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
} nvmlComputeInstanceProfileInfo_v2_t;

typedef struct {
    unsigned int version;
    NVML_COMPUTE_INSTANCE_PROFILE_FIGURES;
    char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
    unsigned int capabilities;
} nvmlComputeInstanceProfileInfo_v3_t;

typedef struct {
    nvmlDevice_t device;
    nvmlGpuInstance_t gpuInstance;
    unsigned int id;
    unsigned int profileId;
    nvmlComputeInstancePlacement_t placement;
} nvmlComputeInstanceInfo_t;

#endif
