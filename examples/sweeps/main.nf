// An experiment in shards, and what joins them:
//
//     nextflow run main.nf                               // here
//     nextflow run main.nf -process.executor slurm --experiment my.toml --shards 20 --options=--quick
//
// Results are in sweep/. Each shard runs in a folder of its own: traces and machine files that the
// experiment names must have absolute paths.

params.experiment = "${projectDir}/sizes.toml"
params.shards = 4
params.options = ''
params.perforate = 'perforate'
params.out = 'sweep'

process shard {
    cpus 1
    errorStrategy 'retry'
    maxRetries 2

    input:
    tuple val(index), path(experiment)

    output:
    path "part-${index}"

    script:
    """
    ${params.perforate} experiment run ${experiment} ${params.options} \
        --shard ${index}/${params.shards} --jobs ${task.cpus} --out part-${index}
    """

    stub:
    "mkdir part-${index}"
}

process join_parts {
    publishDir params.out, mode: 'copy', saveAs: { name -> file(name).name }

    input:
    path experiment
    path parts

    output:
    path 'merged/*'

    script:
    "${params.perforate} experiment merge ${parts} --out merged"

    stub:
    "mkdir merged && touch merged/results.jsonl merged/report.html"
}

workflow {
    experiment = file(params.experiment, checkIfExists: true)
    parts = shard(Channel.of(1..(params.shards as int)).map { index -> tuple(index, experiment) })
    join_parts(experiment, parts.collect())
}
