// Processes that were started for a folder: their environment names it.
import { readdirSync, readFileSync } from 'node:fs'

/** Ids of the processes of this machine whose environment has this folder in it. */
export function processesIn(folder: string): string[] {
  return readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name)) return false
    try {
      return readFileSync(`/proc/${name}/environ`, 'latin1').includes(folder)
    } catch {
      return false
    }
  })
}
