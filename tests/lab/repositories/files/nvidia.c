// Copyright (c) 2026, the gpufleet.node authors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

/*
 * The lab's kernel module `nvidia`, for machines with their own kernel. It does not drive any device. It is built by
 * DKMS, has the aliases of NVIDIA's GPUs, fails to load if nouveau is loaded, and provides the files and device numbers
 * by which a driver is detected. The simulator fills the three empty directories.
 */

#include <linux/fs.h>
#include <linux/module.h>
#include <linux/namei.h>
#include <linux/pci.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

static const struct {
	unsigned int major;
	const char *name;
} numbers[] = { { 195, "nvidia" }, { 236, "nvidia-uvm" }, { 240, "nvidia-caps" } };

static const char *const folders[] = { "driver/nvidia/capabilities", "driver/nvidia/gpus", "driver/nvidia-caps" };

static const struct file_operations operations = { .owner = THIS_MODULE };

/* NVIDIA's display controllers and 3D controllers, to which nouveau binds too. */
static const struct pci_device_id devices[] = {
	{ PCI_DEVICE(0x10de, PCI_ANY_ID), .class = 0x030000, .class_mask = 0xffff00 },
	{ PCI_DEVICE(0x10de, PCI_ANY_ID), .class = 0x030200, .class_mask = 0xffff00 },
	{}
};
MODULE_DEVICE_TABLE(pci, devices);

static int show_version(struct seq_file *file, void *unused)
{
	seq_puts(file, "NVRM version: " NVIDIA_BANNER "  " NVIDIA_VERSION "  Release Build  (lab@gpufleet)\n");
	return 0;
}

static int show_params(struct seq_file *file, void *unused)
{
	seq_puts(file, "ModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n");
	return 0;
}

static void remove(unsigned int registered)
{
	remove_proc_subtree("driver/nvidia-caps", NULL);
	remove_proc_subtree("driver/nvidia", NULL);
	while (registered--)
		unregister_chrdev(numbers[registered].major, numbers[registered].name);
}

static int __init nvidia_init(void)
{
	struct path nouveau;
	unsigned int i;
	int error;

	if (!kern_path("/sys/module/nouveau", LOOKUP_FOLLOW, &nouveau)) {
		path_put(&nouveau);
		pr_err("NVRM: The NVIDIA probe routine was not called: nouveau has the GPUs.\n");
		return -ENODEV;
	}
	for (i = 0; i < ARRAY_SIZE(numbers); i++) {
		error = register_chrdev(numbers[i].major, numbers[i].name, &operations);
		if (error)
			goto failed;
	}
	error = -ENOMEM;
	if (!proc_mkdir("driver/nvidia", NULL))
		goto failed;
	for (i = 0; i < ARRAY_SIZE(folders); i++)
		if (!proc_mkdir(folders[i], NULL))
			goto failed_later;
	if (!proc_create_single("driver/nvidia/version", 0444, NULL, show_version) ||
	    !proc_create_single("driver/nvidia/params", 0444, NULL, show_params))
		goto failed_later;
	pr_info("NVRM: loading " NVIDIA_BANNER "  " NVIDIA_VERSION "\n");
	return 0;

failed_later:
	i = ARRAY_SIZE(numbers);
failed:
	remove(i);
	return error;
}

static void __exit nvidia_exit(void)
{
	remove(ARRAY_SIZE(numbers));
}

module_init(nvidia_init);
module_exit(nvidia_exit);
MODULE_DESCRIPTION("gpufleet lab: stand-in for the NVIDIA driver");
MODULE_VERSION(NVIDIA_VERSION);
MODULE_LICENSE(NVIDIA_LICENSE);
