// Aim: docker/build refuses options that would leave a password in the images, and makes the base without build-time
// leftovers, called from any folder. Stand-ins replace system programs that need minutes or root.
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { temporaryFolder } from '../support/temporary-folder.ts'

const BUILD = join(import.meta.dirname, '../../docker/build')
const WITHOUT_PASSWORD = join(import.meta.dirname, '../../docker/without-password')

/** An engine without images that stores the imported base. */
const DOCKER = `#!/bin/sh
echo "$*" >> "$STANDINS/docker.log"
case $1 in
  version) echo '28.0.0 linux/amd64' ;;
  import) cat > "$STANDINS/base.tar" ;;
  image) case $* in *Size*) echo 1000000 ;; *) exit 1 ;; esac ;;
esac
`
/** A Debian of a few files, some of them leftovers. */
const DEBOOTSTRAP = `#!/bin/sh
while [ "\${1#--}" != "$1" ]; do shift; done
cd "$2"
mkdir -p etc/apt etc/dpkg/dpkg.cfg.d bin usr/share/doc/a usr/share/man/de usr/share/locale/de usr/share/info \\
  var/lib/apt/lists var/cache/apt var/cache/debconf var/log/apt tmp dev
for file in bin/sh etc/os-release usr/share/doc/a/copyright usr/share/doc/a/changelog usr/share/man/de/sh \\
  usr/share/locale/de/sh var/lib/apt/lists/main var/cache/apt/packages var/log/apt/history tmp/left dev/left; do
  echo > "$file"
done
`
const ROOT = '#!/bin/sh\necho 0\n'
const NOTHING = '#!/bin/sh\n'

/** Runs docker/build in a folder, with stand-ins. */
async function build(args: string[], cwd: string, npmRegistry = 'https://npm.example.com/') {
  const standins = temporaryFolder()
  const programs = { docker: DOCKER, debootstrap: DEBOOTSTRAP, id: ROOT, chroot: NOTHING }
  const npm = `#!/bin/sh\ncase $* in 'config get registry') echo ${npmRegistry} ;; pack*) exit 1 ;; *) echo null ;; esac\n`
  for (const [name, text] of Object.entries({ ...programs, npm })) {
    writeFileSync(join(standins, name), text)
    chmodSync(join(standins, name), 0o755)
  }
  const env = {
    PATH: `${standins}:${process.env['PATH']}`,
    STANDINS: standins,
    DOCKER_BUILDKIT: '0',
  }
  const { code, said } = await new Promise<{ code: unknown; said: string }>((resolve) => {
    execFile(BUILD, args, { cwd, env }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : error.code, said: stdout + stderr }),
    )
  })
  const log = join(standins, 'docker.log')
  return { code, said, standins, asked: existsSync(log) ? readFileSync(log, 'utf8') : '' }
}

describe('an address with a password in it', () => {
  const secret = 'hunter2'
  const address = `https://robot:${secret}@mirror.example.com/debian`
  test.each([
    ['--npm-registry', address, 'lets this machine in'],
    ['--npm-registry', `https://${secret}@mirror.example.com`, 'lets this machine in'],
    ['--debian-mirror', address, 'lets this machine in'],
    ['--debian-security-mirror', address, 'lets this machine in'],
    ['--image-registry', `robot:${secret}@registry.example.com`, 'docker login'],
    ['--debian-image', `robot:${secret}@registry.example.com/debian:bookworm-slim`, 'docker login'],
    ['--node-image', `robot:${secret}@registry.example.com/node@sha256:0`, 'docker login'],
  ])('of %s is refused before the build starts', async (option, value, fix) => {
    const { code, said, asked } = await build([option, value, 'agent-uptime'], temporaryFolder())
    expect([code, asked]).toEqual([2, ''])
    expect(said).toContain(option)
    expect(said).toContain(fix)
    expect(said).not.toContain(secret)
  })

  test('is refused in the npm configuration of this machine', async () => {
    const { code, said, asked } = await build([], temporaryFolder(), address)
    expect([code, asked]).toEqual([2, ''])
    expect(said).toContain('--npm-registry')
    expect(said).not.toContain(secret)
  })

  test.each([
    ['', 0],
    ['https://registry.example.com/npm/@scope', 0],
    ['debian@sha256:0123', 0],
    ['registry.example.com/debian:bookworm-slim@sha256:0123', 0],
    ['http://robot@mirror.example.com', 2],
    ['robot:secret@registry.example.com/debian@sha256:0123', 2],
  ])('%j: exit code %d', (value, code) => {
    const { status } = spawnSync('sh', [WITHOUT_PASSWORD, 'it', value])
    expect(status).toBe(code)
  })
})

describe('a new base', () => {
  /** With the user's files where the base has leftovers. */
  const lookalike = () => {
    const folder = temporaryFolder()
    for (const name of ['tmp', 'dev']) mkdirSync(join(folder, name))
    writeFileSync(join(folder, 'tmp/of-the-user'), '')
    return folder
  }

  test.each([
    ['the project’s own folder', () => join(import.meta.dirname, '../..'), 'package.json'],
    ['the root of a system that has other files', () => '/', 'tmp'],
    ['a folder that looks like one', lookalike, 'tmp/of-the-user'],
  ])('from %s has no leftovers', async (_, folder, remains) => {
    const cwd = folder()
    const { code, said, standins } = await build(['--bases', 'make', 'agent-uptime'], cwd)
    expect([code, said]).toEqual([1, expect.stringContaining('npm cannot fetch')])
    const listed = execFileSync('tar', ['-tf', join(standins, 'base.tar')])
      .toString()
      .split('\n')
    const files = listed.filter((path) => path !== '' && !path.endsWith('/')).toSorted()
    expect(files).toEqual([
      './bin/sh',
      './etc/apt/sources.list',
      './etc/dpkg/dpkg.cfg.d/slim',
      './etc/os-release',
      './usr/share/doc/a/copyright',
    ])
    expect(existsSync(join(cwd, remains))).toBe(true)
  })
})
