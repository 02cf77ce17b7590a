// Folder of the compile cache for the processes and threads that the agent starts.
import { getCompileCacheDir } from 'node:module'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

const used = getCompileCacheDir()

/** The folder for NODE_COMPILE_CACHE: the one that src/launch.js has chosen, else the project's own. */
export const COMPILE_CACHE =
  used === undefined
    ? fileURLToPath(new URL('../../node_modules/.cache/vedette', import.meta.url))
    : dirname(used)
