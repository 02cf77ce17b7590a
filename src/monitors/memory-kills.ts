// How often the kernel has ended a process because the agent's container, or whatever control group it is in, had no
// memory left: then neither a crash nor a failing test says anything about the target.
import { readFileSync } from 'node:fs'

/** Within a container; outside of one there are none, or they are those of the whole machine. */
const FILES = [
  // Control groups of version 2, then 1.
  '/sys/fs/cgroup/memory.events.local',
  '/sys/fs/cgroup/memory.events',
  '/sys/fs/cgroup/memory/memory.oom_control',
]

let file: string | undefined | null = null

/** The count until now; 0 where nobody counts. */
export function memoryKills(): number {
  if (file === null) file = FILES.find((path) => countIn(path) !== undefined)
  return file === undefined ? 0 : (countIn(file) ?? 0)
}

function countIn(path: string): number | undefined {
  try {
    const found = /^oom_kill (\d+)$/m.exec(readFileSync(path, 'utf8'))?.[1]
    return found === undefined ? undefined : Number(found)
  } catch {
    return undefined
  }
}
