// The compose file and its mounted files must fit the program: known settings, ports and paths that it serves, time
// to drain, the same restrictions as everywhere, and secrets that docker/compose-secrets makes.
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { IMAGES, isServed, readSettings } from '../support/container/deployed-agent.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const folder = join(import.meta.dirname, '../../docker')
const read = (path: string) => readFileSync(join(folder, path), 'utf8')

interface Service {
  image: string
  profiles?: string[]
  command?: string[]
  entrypoint?: string[]
  environment?: Record<string, string>
  secrets?: string[]
  volumes?: string[]
  ports?: string[]
  read_only?: boolean
  cap_drop?: string[]
  security_opt?: string[]
  stop_grace_period?: string
  depends_on?: Record<string, object>
}

/** The file as it is read where no variable is set. */
const defaults = read('compose.yaml').replaceAll(/\$\{\w+:-([^}]+)\}/g, '$1')
const compose = parse(defaults, { merge: true }) as {
  services: Record<string, Service>
  volumes: Record<string, null>
  secrets: Record<string, { file: string }>
}
const services = Object.entries(compose.services)
const ours = services.filter(([, { image }]) => image.startsWith('vedette/'))
const prometheus = parse(read('prometheus.yml')) as {
  scrape_configs: {
    job_name: string
    metrics_path: string
    dns_sd_configs?: { names: string[]; port: number }[]
    static_configs?: { targets: string[] }[]
  }[]
}

test('every image may be another one, and only the dashboards need a profile', () => {
  const images = [...read('compose.yaml').matchAll(/^ +image: (.*)$/gm)].map(([, image]) => image)
  expect(images.filter((image) => !/^\$\{\w+:-.+\}$/.test(image ?? ''))).toEqual([])
  const profiles = services.flatMap(([name, one]) => (one.profiles ?? []).map((p) => [name, p]))
  expect(profiles).toEqual([
    ['prometheus', 'dashboards'],
    ['grafana', 'dashboards'],
  ])
})

describe.each(ours)('the service %s', (_, service) => {
  const settings = () => {
    // The script reads the platform's settings and its address.
    const { PLATFORM_URL, ...own } = service.environment ?? {}
    const isScript = service.entrypoint !== undefined
    return readSettings(
      service.image,
      isScript ? own : { ...own, ...(PLATFORM_URL && { PLATFORM_URL }) },
    )
  }

  test('has settings that the program accepts', () => {
    expect(IMAGES).toHaveProperty([service.image])
    settings()
  })

  test('has the restrictions of the README', () => {
    expect(service).toMatchObject({
      read_only: true,
      cap_drop: ['ALL'],
      security_opt: ['no-new-privileges:true'],
    })
  })

  test('writes to one volume alone', () => {
    const writable = (service.volumes ?? []).filter((one) => !one.endsWith(':ro'))
    expect(writable.map((one) => one.split(':')[1])).toEqual([settings().dataDir])
  })

  test('publishes the port that it serves, to this machine alone', () => {
    for (const port of service.ports ?? []) {
      expect(port).toBe(`127.0.0.1:${settings().port}:${settings().port}`)
    }
  })
})

const settingsOf = ({ image = '', environment = {} }: Partial<Service> = {}) =>
  readSettings(image, environment)

test.each(['agent', 'platform'])('%s has time to drain', (name) => {
  const service = compose.services[name]
  const graceSeconds = Number(/^(\d+)s$/.exec(service?.stop_grace_period ?? '')?.[1])
  expect(graceSeconds).toBeGreaterThanOrEqual(settingsOf(service).drainSeconds + 20)
})

test.each(['agent', 'first-location'])('%s calls the platform at its address', (name) => {
  const url = compose.services[name]?.environment?.['PLATFORM_URL']
  expect(url).toBe(`http://platform:${settingsOf(compose.services['platform']).port}`)
})

test.each(services)('the files that %s names exist', (_, service) => {
  const paths = Object.entries(service.environment ?? {}).filter(([name]) => name.endsWith('_FILE'))
  for (const [, path] of paths.filter(([, one]) => one.startsWith('/run/secrets/'))) {
    expect(service.secrets).toContain(path.slice('/run/secrets/'.length))
  }
  for (const name of service.secrets ?? []) expect(compose.secrets).toHaveProperty([name])
  const sources = (service.volumes ?? []).map((one) => one.split(':')[0] ?? '')
  const missingPaths = sources.filter((one) =>
    one.startsWith('./') ? !existsSync(join(folder, one)) : !(one in compose.volumes),
  )
  expect(missingPaths).toEqual([])
  for (const other of Object.keys(service.depends_on ?? {})) {
    expect(compose.services).toHaveProperty([other])
  }
})

test('agents read the key that first-location writes', () => {
  const { volumes = [], environment = {} } = compose.services['agent'] ?? {}
  const mount = volumes.find((one) => one.startsWith('location:'))?.split(':')[1]
  expect(environment['API_KEY_FILE']).toBe(`${mount}/api-key`)
  const script = compose.services['first-location']
  const [from = '', to] = script?.volumes?.[0]?.split(':') ?? []
  expect(to).toBe(script?.entrypoint?.[1])
  expect(read(from)).toContain("join(folder, 'api-key')")
  expect(script?.volumes).toContain('location:/var/lib/vedette')
})

describe('docker/compose-secrets', () => {
  const make = () => {
    const place = temporaryFolder()
    const script = join(place, 'compose-secrets')
    copyFileSync(join(folder, 'compose-secrets'), script)
    execFileSync(script, { stdio: 'pipe' })
    return { place, script }
  }
  const secretsIn = (place: string) =>
    Object.fromEntries(
      readdirSync(join(place, 'secrets')).map((name) => [
        name,
        readFileSync(join(place, 'secrets', name), 'utf8'),
      ]),
    )

  test('makes the secrets of the compose file, in a folder for its owner', () => {
    const { place } = make()
    const files = Object.values(compose.secrets).map(({ file }) => file.replace('./secrets/', ''))
    expect(Object.keys(secretsIn(place)).toSorted()).toEqual(files.toSorted())
    expect(statSync(join(place, 'secrets')).mode & 0o777).toBe(0o700)
  })

  test('makes secrets that the platform accepts', () => {
    const { place } = make()
    const readText = (path: string) => path.replace('/run/secrets', join(place, 'secrets'))
    const service = compose.services['platform']
    const env = Object.entries(service?.environment ?? {}).map(([name, value]) => [
      name,
      readText(value),
    ])
    readSettings(service?.image ?? '', Object.fromEntries(env) as Record<string, string>, (path) =>
      readFileSync(path, 'utf8'),
    )
    const { database_url, database_password } = secretsIn(place)
    const { hostname, port, password } = new URL(database_url ?? '')
    expect([hostname, port]).toEqual(['postgres', '5432'])
    expect(`${password}\n`).toBe(database_password)
  })

  test('changes nothing the second time', () => {
    const { place, script } = make()
    const before = secretsIn(place)
    execFileSync(script, { stdio: 'pipe' })
    expect(secretsIn(place)).toEqual(before)
  })
})

describe('Prometheus', () => {
  test.each(prometheus.scrape_configs.map((one) => [one.job_name, one] as const))(
    'scrapes %s where it serves its metrics',
    async (_, config) => {
      const [dns] = config.dns_sd_configs ?? []
      const target = config.static_configs?.[0]?.targets[0] ?? `${dns?.names[0]}:${dns?.port}`
      const [name = '', port] = target.split(':')
      const service = compose.services[name]
      const { environment = {}, image = '' } = service ?? {}
      expect(Number(port)).toBe(readSettings(image, environment).metricsPort)
      expect(await isServed(config.metrics_path, IMAGES[image])).toBe(true)
    },
  )

  test('is at the address that Grafana queries', () => {
    const { datasources } = parse(read('grafana/provisioning/datasources/prometheus.yaml')) as {
      datasources: { url: string; type: string }[]
    }
    expect(datasources).toMatchObject([{ url: 'http://prometheus:9090', type: 'prometheus' }])
    expect(compose.services['prometheus']?.ports).toEqual(['127.0.0.1:9090:9090'])
  })

  test('has its dashboards where Grafana looks for them', () => {
    const { providers } = parse(read('grafana/provisioning/dashboards/vedette.yaml')) as {
      providers: { options: { path: string } }[]
    }
    const mounts = (compose.services['grafana']?.volumes ?? []).map((one) => one.split(':'))
    expect(mounts).toContainEqual(['./grafana/dashboards', providers[0]?.options.path, 'ro'])
  })
})
