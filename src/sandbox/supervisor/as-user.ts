// Looks into a run's processes with that run's own rights, where the supervisor's do not reach: the root of a
// container may not look into the processes of other users.
import { call } from '../../network/native/syscalls.ts'

const UNCHANGED = -1

/** Does it with the agent's own rights, and where those do not reach, as the user of the run. */
export function asUser<T>(userId: number | undefined, act: () => T | undefined): T | undefined {
  const done = act()
  return done !== undefined || userId === undefined ? done : onlyAsUser(userId, act)
}

/** Does it as the user of the run, where it has one of its own. */
export function onlyAsUser<T>(userId: number | undefined, act: () => T): T {
  if (userId === undefined) return act()
  // Of this thread alone; the saved user is the way back. The real one would open the agent's own processes.
  const own = process.getuid?.() ?? 0
  call('setresgid', userId, userId, UNCHANGED)
  call('setresuid', userId, userId, UNCHANGED)
  try {
    return act()
  } finally {
    call('setresuid', own, own, UNCHANGED)
    call('setresgid', own, own, UNCHANGED)
  }
}
