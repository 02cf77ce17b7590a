// A disk of a few bytes, for which tests have to be root; nothing of it is left.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** One with these options of `mount`. */
export interface SmallDisk {
  folder: string
  /** Takes it away, whoever still uses it. */
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
