// Memory of the agent's container or control group. A run gets no more of it than leaves the agent its share: at the
// limit the kernel thrashes on program pages. Where the kernel killed a process for shortage of memory, a crash or a
// failing test says nothing about the target.
import { readFileSync } from 'node:fs'

/** Within a container; outside of one there are none, or they are those of the whole machine. */
const GROUP = '/sys/fs/cgroup'
/** Control groups of version 2, then 1. */
const KILLS = ['memory.events.local', 'memory.events', 'memory/memory.oom_control']
const BOUNDS = ['memory.max', 'memory/memory.limit_in_bytes']
/** For the agent, the supervisor, and the pages of the programs that run. */
const AGENT_SHARE_BYTES = 320 * 1024 * 1024

/** The most that one run may have; infinite where nothing bounds it. `group`: where the groups are mounted. */
export function memoryOfRuns(group = GROUP): number {
  const bound = Number(first(group, BOUNDS, /^(\d+)$/m) ?? Infinity)
  return Math.max(bound / 2, bound - AGENT_SHARE_BYTES)
}

/** Number of processes that the kernel has killed for shortage of memory; 0 where it does not count them. */
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
