// Browser of user code: the system's Chromium, searched for in its usual places. Nothing is downloaded at run time.
import { constants } from 'node:fs'
import { access, realpath, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** Where systems have it, the best one first. */
const PLACES: readonly string[] = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome-stable',
  '/usr/bin/google-chrome',
  '/opt/google/chrome/chrome',
]

/** What a run without a browser says that wants one. */
export const CHROMIUM_ADVICE =
  'install one (on Debian: apt-get install chromium), or set CHROMIUM_PATH'

/** The browser that the settings name, else the one that the system has; undefined where there is none. */
export async function findChromium(named: string | undefined): Promise<string | undefined> {
  if (named !== undefined) return (await isProgram(named)) ? named : undefined
  for (const place of PLACES) if (await isProgram(place)) return place
  return undefined
}

/** Programs and folders that a run must be able to read to start this browser. */
export async function readableFor(chromium: string): Promise<string[]> {
  return [chromium, dirname(await realpath(chromium))]
}

/** Where systems have programs; what the agent's own PATH says is not the run's business. */
export const SYSTEM_PROGRAMS: readonly string[] = ['/usr/local/bin', '/usr/bin', '/bin']

/** The first of the programs of this name in these folders. */
export async function findProgram(
  name: string,
  folders = SYSTEM_PROGRAMS,
): Promise<string | undefined> {
  for (const folder of folders) {
    const path = join(folder, name)
    if (await isProgram(path)) return path
  }
  return undefined
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK)
    return (await stat(path)).isFile()
  } catch {
    return false
  }
}
