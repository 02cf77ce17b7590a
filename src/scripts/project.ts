// Lays a script out as the small project that it is: the script and what it imports at their paths, the
// packages of its runtime, and a configuration for Playwright that the monitor's own settings go into.
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { dirname, join, posix } from 'node:path'
import { ownProgram } from './own-programs.ts'
import { targetFailure } from '../network/target-failure.ts'

/** The fields of browser and multistep monitors that make a project. */
export interface Script {
  script: string
  scriptPath?: string | null | undefined
  dependencies: readonly { path: string; content: string }[] | null
  playwrightConfig?: Record<string, unknown> | null | undefined
}

export interface ScriptProject {
  /** Where it starts. */
  folder: string
  args: string[]
  /** It defines tests; else it is code that runs from top to bottom. */
  isTest: boolean
}

const TEST_PACKAGE = '@playwright/test'

/** Writes the project. Throws a TargetFailure where a path leads out of it. */
export async function layOutScript(
  script: Script,
  run: { folder: string; modules: string; hasVideo: boolean },
): Promise<ScriptProject> {
  const { folder, modules } = run
  const project = join(folder, 'project')
  const isTest = definesTests(script)
  const name = pathInside(script.scriptPath ?? defaultName(script.script, isTest))
  await symlink(modules, join(folder, 'node_modules'))
  await writeFiles(project, [
    ...(script.dependencies ?? []),
    { path: name, content: script.script },
  ])
  if (!isTest) {
    const args = [ownProgram(folder, 'plain.cjs'), join(project, name)]
    return { folder: project, args, isTest }
  }
  const config = join(folder, '.vedette', 'playwright.config.cjs')
  await mkdir(dirname(config))
  await writeFile(config, configurationOf(script, { ...run, project, name }))
  const args = [join(modules, TEST_PACKAGE, 'cli.js'), 'test', '--config', config]
  return { folder: project, args, isTest }
}

/** Writes user code below `folder`. Throws a TargetFailure where a path leads out of it. */
export async function writeFiles(
  folder: string,
  files: readonly { path: string; content: string }[],
): Promise<void> {
  for (const { path, content } of files) {
    const at = join(folder, pathInside(path))
    await mkdir(dirname(at), { recursive: true })
    await writeFile(at, content)
  }
}

/** The path inside of the project, whatever it looks like; throws a TargetFailure where it leads out. */
export function pathInside(path: string): string {
  const plain = posix.normalize(path.replaceAll('\\', '/')).replace(/^\/+/, '')
  if (plain !== '' && plain !== '.' && plain !== '..' && !plain.startsWith('../')) return plain
  const message = `the path ${JSON.stringify(path)} is outside of the script’s project`
  throw targetFailure('SETTINGS_INVALID', message, { path })
}

/** An import or export statement, not the keyword in a comment, in a text, or as a call. */
const IMPORT = /(?:^|;)[ \t]*import\s*(?:["']|[\w$*{][^;'"`()]*?\bfrom\s*["'])/m

/** With a name of TypeScript's, so that a script may be either; ES modules by name for old Node.js. */
function defaultName(script: string, isTest: boolean): string {
  if (isTest) return 'script.spec.ts'
  return IMPORT.test(script) ? 'script.mjs' : 'script.js'
}

const IMPORTED = new RegExp(
  String.raw`(?:import\s*\{([^}]*)\}\s*from\s*|\{([^}]*)\}\s*=\s*require\(\s*)['"]${TEST_PACKAGE}['"]`,
)

/** Whether the script, or what it imports, uses the package of tests for more than `expect`. */
function definesTests({ script, dependencies }: Script): boolean {
  if ((dependencies ?? []).some(({ content }) => content.includes(TEST_PACKAGE))) return true
  if (!script.includes(TEST_PACKAGE)) return false
  const imported = IMPORTED.exec(script)
  const names = imported?.[1] ?? imported?.[2]
  return names === undefined || /\btest\b/.test(names)
}

/** As a regular expression means the text itself. */
const escaped = (text: string) => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`)

interface Layout {
  folder: string
  project: string
  name: string
  hasVideo: boolean
}

/** Files of the run's results, in its folder. */
const RESULTS_FOLDER = 'results'

function configurationOf({ playwrightConfig }: Script, at: Layout): string {
  const { use, timeout, expect } = playwrightConfig ?? {}
  const settings = {
    testDir: at.project,
    outputDir: join(at.folder, RESULTS_FOLDER),
    workers: 1,
    retries: 0,
    reporter: 'null',
    ...(timeout === undefined ? {} : { timeout }),
    ...(expect === undefined ? {} : { expect }),
    use: {
      screenshot: 'only-on-failure',
      trace: 'retain-on-failure',
      video: at.hasVideo ? 'retain-on-failure' : 'off',
      ...(use as object | undefined),
      ...(at.hasVideo ? {} : { video: 'off' }),
    },
  }
  const match = `new RegExp(${JSON.stringify(`/${escaped(at.name)}$`)})`
  const own = use as { proxy?: unknown; launchOptions?: { proxy?: unknown } } | null | undefined
  const hasProxy = (own?.proxy ?? own?.launchOptions?.proxy) != null
  // Otherwise that of the run would replace it.
  const head = hasProxy ? 'delete process.env.VEDETTE_PROXY\n' : ''
  return `${head}module.exports = { ...${JSON.stringify(settings)}, testMatch: ${match} }\n`
}
