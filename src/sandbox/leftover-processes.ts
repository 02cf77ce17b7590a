// Kills leftover processes of a supervisor that died itself: found by the run's user, or by the marks of its
// processes.
import { lstatSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { allProcesses, factsOf, textOf } from './supervisor/processes.ts'
import { holdUser, userLocksFolder, USERS_MAX } from './users.ts'

const ROUNDS_MAX = 40
const PAUSE_MS = 50

export interface RunMarks {
  userId?: number | undefined
  /** The command, whose session the others are in unless they left it. */
  leader?: number | undefined
  /** Stands in their environment, as their home. */
  folder: string
}

/** Kills until none is found any more; resolves with how many could not be ended. */
export async function endLeftovers(marks: RunMarks): Promise<number> {
  let quietRounds = 0
  for (let round = 0; ; round++) {
    const found = allProcesses().filter((pid) => isOfRun(pid, marks))
    quietRounds = found.length === 0 ? quietRounds + 1 : 0
    // One look may miss a process that is forked meanwhile.
    if (quietRounds === 2 || round === ROUNDS_MAX) return found.length
    for (const pid of found) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It has ended.
      }
    }
    await delay(PAUSE_MS)
  }
}

/** Ends what still runs of a run whose agent is gone; resolves with how many processes could not be ended. */
export async function endRunsOf(folder: string, firstUserId: number): Promise<number> {
  const owner = lstatSync(folder).uid
  const isRunUser = owner >= firstUserId && owner < firstUserId + USERS_MAX
  const locks = process.getuid?.() === 0 && isRunUser ? userLocksFolder() : undefined
  const release = locks === undefined ? undefined : holdUser(locks, owner)
  try {
    return await endLeftovers({ folder, userId: release && owner })
  } finally {
    release?.()
  }
}

function isOfRun(pid: number, { userId, leader, folder }: RunMarks): boolean {
  const facts = pid === 1 || pid === process.pid ? undefined : factsOf(pid)
  if (facts === undefined || facts.isZombie) return false
  if (userId !== undefined) {
    const real = /^Uid:\s+(\d+)/m.exec(textOf(pid, 'status'))?.[1]
    return real !== undefined && Number(real) === userId
  }
  if (facts.session === leader) return true
  return `\0${textOf(pid, 'environ')}`.includes(`\0HOME=${folder}/`)
}
