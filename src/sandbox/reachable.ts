// Access of runs of user code to files of the agent outside of their folders.
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/** Whether the kernel keeps runs from writing to what is not in their own folder, even the agent's own user. */
export async function isOutOfReach(): Promise<boolean> {
  if (process.getuid?.() === 0) return true
  const { landlockVersion } = await import('../network/native/syscalls.ts')
  return landlockVersion() > 0
}

/** Whether users that are not the agent's, as runs of root's agent have, get to the folder when it is named to them. */
export async function isReachable(folder: string): Promise<boolean> {
  if (process.getuid?.() !== 0) return true
  const { mayMount } = await import('./supervisor/mounts.ts')
  if (mayMount()) return true
  for (let at = folder; ; at = dirname(at)) {
    if (((await stat(at)).mode & 0o001) === 0) return false
    if (at === dirname(at)) return true
  }
}
