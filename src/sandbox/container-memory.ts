// The memory of the agent's container, or of whatever control group it is in. A run may have no more of it than leaves
// the agent its own: at the very bound the kernel reads programs from the disk over and over, and nothing moves on. And
// where the kernel ended a process for want of memory, neither a crash nor a failing test says anything of the target.
import { readFileSync } from 'node:fs'

/** Within a container; outside of one there are none, or they are those of the whole machine. */
const GROUP = '/sys/fs/cgroup'
/** Control groups of version 2, then 1. */
const KILLS = ['memory.events.local', 'memory.events', 'memory/memory.oom_control']
const BOUNDS = ['memory.max', 'memory/memory.limit_in_bytes']
/** For the agent, the supervisor, and the pages of the programs that run. */
const KEPT_BYTES = 320 * 1024 * 1024

/** The most that one run may have; infinite where nothing bounds it. `group`: where the groups are mounted. */
export function memoryOfRuns(group = GROUP): number {
  const bound = Number(first(group, BOUNDS, /^(\d+)$/m) ?? Infinity)
  return Math.max(bound / 2, bound - KEPT_BYTES)
}

/** How often the kernel has ended a process for want of memory until now; 0 where nobody counts. */
export function memoryKills(group = GROUP): number {
  return Number(first(group, KILLS, /^oom_kill (\d+)$/m) ?? 0)
}

/** What the pattern finds in the first of the files that has it. */
function first(group: string, files: readonly string[], pattern: RegExp): string | undefined {
  for (const file of files) {
    const found = pattern.exec(textOf(`${group}/${file}`))?.[1]
    if (found !== undefined) return found
  }
  return undefined
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
