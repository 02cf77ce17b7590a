// Where compiled code is kept, for the processes and threads that the agent starts.
import { fileURLToPath } from 'node:url'

/**
 * The folder for NODE_COMPILE_CACHE. In the project's own folder, as src/launch.js has it: what lies in a folder
 * that anybody may write to must not be run.
 */
export const COMPILE_CACHE = fileURLToPath(
  new URL('../../node_modules/.cache/vedette', import.meta.url),
)
