// The configuration that a suite runs with: the project's own, in whose place stands a file that imports it
// and adds what was left open. Whatever the test command is, it finds this one.
import { lstat, rename, writeFile } from 'node:fs/promises'
import { basename, dirname, extname, join, normalize } from 'node:path'
import { jsonOf } from '../contract/exact-json.ts'
import { leadsInside, readUntrusted } from '../sandbox/untrusted-files.ts'

/** Names under which Playwright looks for a configuration, in its order. */
const NAMES = ['ts', 'js', 'mts', 'mjs', 'cts', 'cjs'].map((end) => `playwright.config.${end}`)
/** Before the name of the project's own file, which keeps its place and its end. */
const OWN = 'own.'
const CONFIG_BYTES_MAX = 4_194_304

/**
 * Puts a wrapping file in the place of each configuration of the project in `cwd`: of the one that Playwright
 * finds by itself, and those that the command names. Without any, there is one of the defaults alone.
 * `folder` is the whole project; nothing outside of it is touched. `wrapping` is our program that they load.
 */
export async function wrapConfigs(
  folder: string,
  cwd: string,
  wrapping: string,
  testCommand: string,
): Promise<void> {
  const named = namedConfigs(testCommand).map((path) => join(cwd, path))
  const found: string[] = []
  for (const path of named) {
    const isOwn = normalize(path).startsWith(`${folder}/`) && (await isFile(path))
    if (isOwn && (await leadsInside(path, folder))) found.push(path)
  }
  for (const path of NAMES.map((name) => join(cwd, name))) {
    if (!(await isFile(path))) continue
    found.push(path)
    break
  }
  for (const path of new Set(found)) await wrap(path, folder, wrapping)
  if (found.length > 0 || named.length > 0) return
  const alone = `module.exports = require(${JSON.stringify(wrapping)})({})\n`
  await writeFile(join(cwd, 'playwright.config.cjs'), alone, { flag: 'wx' })
}

/** What a command says after `-c` or `--config`. */
function namedConfigs(command: string): string[] {
  const pattern = /(?:^|\s)(?:-c|--config)(?:\s+|=)(?:"([^"]+)"|'([^']+)'|([^\s"']+))/g
  return [...command.matchAll(pattern)]
    .map(([, a, b, c]) => a ?? b ?? c ?? '')
    .filter((path) => path !== '' && !path.includes('\0') && !path.startsWith('/'))
}

async function wrap(path: string, folder: string, wrapping: string): Promise<void> {
  const own = `${OWN}${basename(path)}`
  const end = extname(path)
  const isScript = end === '.js' && !(await isModule(path, folder))
  const isCommon = isScript || end === '.cjs' || end === '.cts'
  await rename(path, join(dirname(path), own))
  // Ours comes first: what the project's own file loads is to be watched as well.
  // Playwright takes TypeScript's files by their own name; with imports of modules alone, it must be given.
  const [from, by] = [JSON.stringify(`./${own}`), JSON.stringify(wrapping)]
  await writeFile(
    path,
    isCommon
      ? `const wrap = require(${by})\nmodule.exports = wrap(require(${from}))\n`
      : `import wrap from ${by}\nimport * as own from ${from}\nexport * from ${from}\nexport default wrap(own)\n`,
    { flag: 'wx' },
  )
}

/** Whether a file `.js` is an ECMAScript module: by its syntax, as Playwright has it, or by the nearest package.json. */
async function isModule(path: string, folder: string): Promise<boolean> {
  const text = (await readUntrusted(path, CONFIG_BYTES_MAX)) ?? ''
  if (/^\s*(?:import\s[^(]|import\{|export\s)/m.test(text)) return true
  for (let at = dirname(path); at.startsWith(folder); at = dirname(at)) {
    const own = await readUntrusted(join(at, 'package.json'), CONFIG_BYTES_MAX)
    const manifest = jsonOf(own ?? '') as { type?: unknown } | null | undefined
    if (manifest) return manifest.type === 'module'
  }
  return false
}

async function isFile(path: string): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined)
  return found?.isFile() === true
}
