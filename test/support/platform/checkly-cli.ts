// The command-line tool of the product that this API is compatible with, as an independent client. Installed into a
// cache at first use; it is no dependency of the project.
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const VERSION = '9.5.0'
const CACHE = resolve(import.meta.dirname, `../../../node_modules/.cache/checkly-${VERSION}`)
const NODE = resolve(import.meta.dirname, '../../../node_modules/.bin/node')
const entry = (folder: string) => `${folder}/node_modules/checkly/bin/run.cjs`
const INSTALL_MS = 180_000
const COMMAND_MS = 60_000

/** The outcome of one run of the tool. */
export interface CliRun {
  exitCode: number
  stdout: string
  stderr: string
}

/** Installs the tool unless it is there. Why it cannot be used, or undefined; throws in CI. */
export async function installChecklyCli(): Promise<string | undefined> {
  if (existsSync(entry(CACHE))) return undefined
  const folder = `${CACHE}.${process.pid}`
  try {
    await mkdir(folder, { recursive: true })
    await writeFile(`${folder}/package.json`, '{"private":true}')
    const npm = ['install', '--no-audit', '--no-fund', '--engine-strict=false', '--ignore-scripts']
    // npm runs on the project's own Node, which the tool asks for.
    const env = { ...process.env, PATH: `${dirname(NODE)}:${process.env['PATH']}` }
    await run('npm', [...npm, `checkly@${VERSION}`], { cwd: folder, env, timeout: INSTALL_MS })
    await rename(folder, CACHE)
    return undefined
  } catch (error) {
    if (existsSync(entry(CACHE))) return undefined
    if (process.env['CI'] !== undefined) throw error
    return `needs the npm registry: npm install --prefix ${CACHE} checkly@${VERSION}`
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Runs the tool against an API. */
export async function checkly(
  api: { url: string; secret: string; accountId: string },
  args: readonly string[],
): Promise<CliRun> {
  const env = {
    PATH: `${dirname(NODE)}:/usr/bin:/bin`,
    HOME: CACHE,
    XDG_CONFIG_HOME: `${CACHE}/config`,
    CHECKLY_ENV: 'local',
    CHECKLY_API_URL: api.url,
    CHECKLY_API_KEY: api.secret,
    CHECKLY_ACCOUNT_ID: api.accountId,
    CHECKLY_NO_DOTENV: '1',
    CHECKLY_CLI_MODE: 'ci',
    NO_COLOR: '1',
  }
  try {
    const options = { env, cwd: CACHE, timeout: COMMAND_MS }
    return { exitCode: 0, ...(await run(NODE, [entry(CACHE), ...args], options)) }
  } catch (error) {
    const { code, stdout, stderr } = error as { code?: number; stdout: string; stderr: string }
    if (typeof code !== 'number') throw error
    return { exitCode: code, stdout, stderr }
  }
}
