// Tests of the images need Docker and images of the current sources. Without them the tests are skipped with the
// command that builds them; in CI they must exist.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach } from 'vitest'
import { VERSION } from '../../../src/contract/versions.ts'

/** The names of docker/build. */
export type Image = 'agent-uptime' | 'agent' | 'agent-migrate' | 'platform'

const root = join(import.meta.dirname, '../../..')
/** Files that an image copies unchanged. */
const PARTS = ['src', 'versions']

/** The tag of an image. */
export function tagOf(image: Image): string {
  if (image === 'agent-migrate') return 'vedette/agent:7.0.2-migrate-202409-202604'
  return `vedette/${image}:${VERSION}`
}

/** Skips all tests of the file, or of the block around, where these images are missing. */
export function needImages(...images: Image[]): void {
  const why = missingImages(...images)
  beforeEach(({ skip }) => skip(why !== undefined, why))
}

/** Why tests of these images cannot run here, or undefined when they can. Throws in CI. */
export function missingImages(...images: Image[]): string | undefined {
  const why = engineProblem() ?? imagesProblem(images)
  if (why !== undefined && process.env['CI'] !== undefined) throw new Error(why)
  return why
}

function engineProblem(): string | undefined {
  try {
    docker('version', '--format', '{{.Server.Version}}')
    return undefined
  } catch (error) {
    const isForbidden = String((error as { stderr?: string }).stderr).includes('permission denied')
    const command = isForbidden ? 'usermod -aG docker <this user>' : 'apt-get install docker.io'
    return `needs a Docker engine that answers: ${command}`
  }
}

function imagesProblem(images: readonly Image[]): string | undefined {
  const stale = images.filter((image) => !isOfTheseSources(tagOf(image)))
  return stale.length === 0
    ? undefined
    : `needs images of these sources: docker/build ${stale.join(' ')}`
}

function isOfTheseSources(tag: string): boolean {
  try {
    const list = `find ${PARTS.join(' ')} -type f | LC_ALL=C sort | xargs sha256sum | sha256sum`
    const isolated = ['run', '--rm', '--network', 'none', '--read-only', '--entrypoint', 'sh']
    const fileHashes = docker(...isolated, '--workdir', '/vedette', tag, '-c', list)
    return fileHashes.startsWith(ownHash())
  } catch {
    return false
  }
}

function ownHash(): string {
  const files = PARTS.flatMap((part) => filesIn(part)).toSorted()
  const lines = files.map((path) => `${sha256(readFileSync(join(root, path)))}  ${path}\n`)
  return sha256(lines.join(''))
}

function filesIn(part: string): string[] {
  return readdirSync(join(root, part), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
}

const sha256 = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest('hex')

function docker(...args: string[]): string {
  return execFileSync('docker', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}
