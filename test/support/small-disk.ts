// A very small disk. Tests must be root for it; it is removed with the test.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** One with these options of `mount`. */
export interface SmallDisk {
  folder: string
  /** Unmounts it, even while it is in use. */
  remove: () => void
}

/** Mounts it. */
export function mountSmallDisk(options: string): SmallDisk {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-disk-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder])
  return {
    folder,
    remove() {
      execFileSync('umount', ['-l', folder])
      rmdirSync(folder)
    },
  }
}
