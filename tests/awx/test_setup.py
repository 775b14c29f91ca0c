# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""awx/setup.yml, with the real modules of awx.awx, against a stand-in of AWX's API."""

from __future__ import annotations

import json
import threading
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables
from ansible_collections.gpufleet.node.tests.awx import stand_in
from ansible_collections.gpufleet.node.tests.playbooks.conftest import TOP, Run, ansible_playbook

PROJECT = TOP / "awx" / "project"
LAYOUTS = ["whole", "half", "mixed", "small"]
URL = "https://git.example.com/gpu/nodes.git"
SETTINGS: t.Dict[str, t.Any] = {
    "awx_project_url": URL,
    "awx_layouts_file": str(PROJECT / "inventories/nodes/group_vars/all.yml"),
    "awx_image": "registry.example.com/gpufleet-node:1.0.0",
    "awx_pod_spec": "apiVersion: v1\nkind: Pod\n",  # a YAML block, of which AWX strips the last newline
    "awx_managed_clusters": [
        {"name": "Managed GPU cluster", "path": "inventories/managed/hosts", "credentials": ["GPU cluster"]}
    ],
    "awx_credentials": [
        {"name": "GPU nodes", "credential_type": "Machine"},
        {"name": "GPU cluster", "credential_type": "Kubeconfig", "inputs": {"kubeconfig": "the kubeconfig"}},
    ],
}


class Site(t.NamedTuple):
    """An AWX, and how to run the playbook against it."""

    awx: stand_in.Awx
    play: t.Callable[..., Run]
    created: t.Optional[Run] = None


def start(work: Path) -> t.Iterator[Site]:
    awx = stand_in.Awx({URL: PROJECT})
    server = stand_in.serve(awx)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def play(*arguments: str, fails: bool = False, **settings: t.Any) -> Run:
        own = work / "settings.yml"
        host = settings.pop("CONTROLLER_HOST", "http://127.0.0.1:%d" % server.server_address[1])
        own.write_text(yaml.safe_dump({**SETTINGS, **settings}))
        access = {"CONTROLLER_HOST": host, "CONTROLLER_OAUTH_TOKEN": stand_in.TOKEN}
        run = ansible_playbook(work, *arguments, "-e", "@%s" % own, TOP / "awx/setup.yml", **access)
        if (run.status != 0) != fails:
            pytest.fail("ansible-playbook ended with status %d\n%s" % (run.status, run.output), pytrace=False)
        return run

    yield Site(awx, play)
    server.shutdown()
    server.server_close()


@pytest.fixture(name="empty")
def fixture_empty(tmp_path: Path) -> t.Iterator[Site]:
    """Without objects."""
    yield from start(tmp_path)


@pytest.fixture(name="site", scope="session")
def fixture_site(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Site]:
    """With the objects of the playbook. Tests must not change them."""
    for site in start(tmp_path_factory.mktemp("awx")):
        others(site.awx, "GPU nodes")
        yield site._replace(created=site.play("-vvv"))


def others(awx: stand_in.Awx, name: str) -> None:
    """Add a credential of another organization."""
    kind = awx.one("credential_types", name="Machine")
    awx.add("credentials", name=name, organization=0, credential_type=kind["id"])


def survey(site: Site, template: stand_in.Object) -> t.Dict[str, stand_in.Object]:
    """The questions of a template, by variable."""
    return {question["variable"]: question for question in site.awx.surveys.get(template["id"], {}).get("spec", [])}


# --- The playbook -----------------------------------------------------------------------------------------------------


def test_a_second_run_changes_nothing(site: Site) -> None:
    site.awx.requests.clear()
    run = site.play()
    assert run.count("localhost", "changed") == 0
    (project,) = site.awx.objects["projects"]
    assert site.awx.requests == ["POST /api/v2/projects/%d/update/" % project]


def test_the_playbooks_of_the_last_commit_are_found(empty: Site) -> None:
    """AWX knows those of the last update, which may have been before the commit."""
    owner = empty.awx.add("organizations", name="GPU nodes")["id"]
    fields = {"scm_type": "git", "scm_url": URL, "scm_revision": "0", "playbooks": ["site.yml"]}
    empty.awx.add("projects", name="GPU nodes, playbooks", organization=owner, **fields)
    empty.play()


def test_check_mode_shows_only_what_would_change(site: Site) -> None:
    site.awx.requests.clear()
    assert site.play("--check", awx_image="registry.example.com/other:1").count("localhost", "changed") == 1
    assert site.awx.requests == []


def test_check_mode_without_objects_lists_them(empty: Site) -> None:
    run = empty.play("--check")
    assert run.count("localhost", "changed") == 1
    assert "organizations: GPU nodes; " in run.output and "credentials: GPU cluster; " in run.output
    assert empty.awx.requests == []


def test_check_mode_lists_what_would_be_created_first(site: Site) -> None:
    clusters = [*SETTINGS["awx_managed_clusters"], {"name": "Two", "path": "two/hosts", "credentials": ["GPU cluster"]}]
    run = site.play("--check", awx_managed_clusters=clusters)
    assert "others: inventories: Two; job_templates: Two" in run.output.replace("\n", " ")


def test_secrets_are_not_shown(site: Site) -> None:
    assert site.created and "the kubeconfig" not in site.created.output


# --- What is rejected before a change ---------------------------------------------------------------------------------


def named(name: str) -> t.Dict[str, t.Any]:
    """A managed cluster."""
    return {"name": name, "path": "inventories/managed/hosts", "credentials": ["GPU cluster"]}


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"awx_layout_file": "x"}, "Unknown settings: awx_layout_file."),
        ({"awx_project_url": ""}, "Set awx_project_url."),
        ({"awx_image": ""}, "Set awx_image."),
        ({"awx_image": None}, "Set awx_image."),
        ({"awx_layouts_file": ""}, "Set awx_layouts_file."),
        ({"awx_credentials": [{"nme": "GPU nodes", "credential_type": "Machine"}]}, "needs name and credential_type"),
        ({"awx_managed_clusters": [{"name": "GPU cluster"}]}, "needs name, path and credentials"),
        ({"awx_managed_clusters": "prod"}, "awx_credentials and awx_managed_clusters are lists."),
        ({"awx_managed_clusters": [named("GPU nodes")]}, "GPU nodes of awx_managed_clusters is also the name"),
        ({"awx_managed_clusters": [named("GPU nodes, mig")]}, "GPU nodes, mig of awx_managed_clusters is also the"),
        ({"awx_node_credentials": ["GPU node"]}, "AWX has no GPU node in credentials."),
        ({"awx_instances": ["gpu-runner"]}, "AWX has no gpu-runner in instances."),
        ({"awx_credentials": [{"name": "GPU nodes", "credential_type": "SSH"}]}, "AWX has no SSH in credential_types."),
    ],
)
def test_wrong_settings(empty: Site, settings: t.Dict[str, t.Any], message: str) -> None:
    run = empty.play(fails=True, **settings)
    assert message in run.output
    assert empty.awx.requests == []


def test_a_name_of_several_credentials_is_rejected(empty: Site) -> None:
    for _number in range(2):
        others(empty.awx, "shared")
    run = empty.play(fails=True, awx_node_credentials=["shared"])
    assert "AWX has 2 shared in credentials. Create it, or correct the name" in " ".join(run.output.split())
    assert empty.awx.requests == []


def test_an_address_is_required(empty: Site) -> None:
    assert "Set the environment variable CONTROLLER_HOST." in empty.play(fails=True, CONTROLLER_HOST="").output


def test_a_missing_file_of_layouts(empty: Site, tmp_path: Path) -> None:
    run = empty.play(fails=True, awx_layouts_file="group_vars/all.yml")
    assert "must be a YAML file that defines nvidia_mig_layouts" in run.output
    assert "%s/group_vars/all.yml" % tmp_path in run.output  # below the current directory


NAMES = "must be a YAML file that defines nvidia_mig_layouts as a mapping, without templates."


@pytest.mark.parametrize(
    "content, message",
    [
        ("gpu_node_boards: [A100-80GB]", NAMES),
        ("nvidia_mig_layouts: {}", NAMES),
        ("nvidia_mig_layouts: whole", NAMES),
        ("nvidia_mig_layouts: [{devices: all, mig_enabled: false}]", NAMES),
        ("nvidia_mig_layouts: '{{ others }}'", NAMES),
        ("nvidia_mig_layouts: {7: [{devices: all, mig_enabled: false}]}", NAMES),
        ("nvidia_mig_layouts: {one two: [{devices: all, mig_enabled: false}]}", NAMES),
        ("nvidia_mig_layouts: {whole: [{devices: all, mig_enabld: false}]}", "whole in"),
        ("nvidia_mig_layouts: [", "did not find expected node content"),
    ],
)
def test_wrong_layouts(empty: Site, tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "all.yml"
    path.write_text(content)
    assert message in empty.play(fails=True, awx_layouts_file=str(path)).output
    assert empty.awx.requests == []


@pytest.mark.parametrize("layouts", ["{%s: []}", "{%s: [{devices: all, mig_enabled: false}]}", "{whole: %s}", "%s"])
def test_layouts_are_not_templated(empty: Site, tmp_path: Path, layouts: str) -> None:
    """Whoever can commit to the project must not act as the administrator who runs the playbook."""
    path = tmp_path / "all.yml"
    template = "{{ lookup('ansible.builtin.pipe', 'touch %s') }}" % (tmp_path / "run")
    path.write_text("nvidia_mig_layouts: " + layouts % json.dumps(template))
    empty.play("--check", fails=True, awx_layouts_file=str(path))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "resource, fields, message",
    [
        ("credential_types", {"name": "Kubeconfig", "kind": "cloud", "injectors": {}}, "awx_kubeconfig_type"),
        ("execution_environments", {"name": "gpufleet.node", "organization": 99}, "awx_environment"),
        ("instance_groups", {"name": "GPU nodes, one job at a time"}, "awx_instance_group"),
    ],
)
def test_objects_of_others_are_not_changed(empty: Site, resource: str, fields: stand_in.Object, message: str) -> None:
    empty.awx.add(resource, **fields)
    assert "Choose another name with %s." % message in empty.play(fails=True).output
    assert empty.awx.requests == []


# --- The objects ------------------------------------------------------------------------------------------------------


def test_templates_share_one_instance_group_that_runs_one_job_at_a_time(site: Site) -> None:
    group = site.awx.one("instance_groups", max_concurrent_jobs=1, is_container_group=True)
    templates = site.awx.objects["job_templates"].values()
    assert len(templates) == 8
    for template in templates:
        assert site.awx.linked(template, "instance_groups") == [group["name"]]
        assert template["prevent_instance_group_fallback"]  # another group would run the job at the same time
        assert template["job_slice_count"] == 1 and not template["ask_job_slice_count_on_launch"]
        assert not template["allow_simultaneous"]


@pytest.mark.parametrize(
    "name, playbook, credentials, questions",
    [
        ("GPU nodes, site", "site.yml", ["GPU nodes"], []),
        ("GPU nodes, mig", "mig.yml", ["GPU nodes"], ["nvidia_mig_layout", "gpu_node_target", "gpu_node_batches"]),
        ("GPU nodes, mig from inventory", "mig.yml", ["GPU nodes"], ["gpu_node_batches"]),
        ("GPU nodes, rehearse", "rehearse.yml", [], ["rehearse_from"]),
        ("GPU nodes, verify", "verify.yml", ["GPU nodes"], []),
        ("GPU nodes, report", "report.yml", ["GPU nodes"], []),
        (
            *("GPU nodes, undo", "undo.yml", ["GPU nodes"]),
            ["gpu_node_target", "gpu_node_undo_confirmed", "rke2_uninstall_confirmed"],
        ),
        ("Managed GPU cluster", "managed_cluster.yml", ["GPU cluster"], []),
    ],
)
def test_templates(site: Site, name: str, playbook: str, credentials: t.List[str], questions: t.List[str]) -> None:
    template = site.awx.one("job_templates", name=name)
    assert template["playbook"] == playbook
    assert site.awx.linked(template, "credentials") == credentials
    assert list(survey(site, template)) == questions
    assert template["survey_enabled"] == bool(questions)


def test_templates_use_the_credentials_of_their_organization(site: Site) -> None:
    own = site.awx.one("organizations", name="GPU nodes")["id"]
    used = {number for (_one, name), numbers in site.awx.links.items() if name == "credentials" for number in numbers}
    assert used and {site.awx.objects["credentials"][number]["organization"] for number in used} == {own}


def test_surveys_offer_the_names_of_the_layouts(site: Site) -> None:
    for resource, name in (
        ("job_templates", "GPU nodes, mig"),
        ("workflow_job_templates", "GPU nodes, change to a named layout"),
    ):
        question = survey(site, site.awx.one(resource, name=name))["nvidia_mig_layout"]
        assert (question["type"], question["choices"]) == ("multiplechoice", LAYOUTS)


def test_surveys_set_variables_of_the_collection(site: Site) -> None:
    asked = {question["variable"] for one in site.awx.surveys.values() for question in one["spec"]}
    assert asked - variables.known_variables() == set()


@pytest.mark.parametrize("change", ["GPU nodes, mig", "GPU nodes, mig from inventory"])
def test_workflows_rehearse_preview_ask_change_verify_and_report(site: Site, change: str) -> None:
    templates = {"preview": change, "approval": "Approve the change", "change": change}
    templates.update(rehearsal="GPU nodes, rehearse", verify="GPU nodes, verify", report="GPU nodes, report")
    steps = ["rehearsal", "preview", "approval", "change", "verify", "report"]
    links: t.Dict[str, t.List[str]] = {step: [following] for step, following in zip(steps, steps[1:])}
    links["report"] = []
    name = {
        "GPU nodes, mig": "GPU nodes, change to a named layout",
        "GPU nodes, mig from inventory": "GPU nodes, apply the inventory",
    }[change]
    workflow = site.awx.one("workflow_job_templates", name=name)
    nodes = site.awx.find("workflow_job_template_nodes", {"workflow_job_template": workflow["id"]})
    assert {node["identifier"]: site.awx.linked(node, "success_nodes") for node in nodes} == links
    for node in nodes:
        template = site.awx.one("unified_job_templates", id=node["unified_job_template"])
        assert template["name"] == templates[node["identifier"]]
        assert node["job_type"] == ("check" if node["identifier"] == "preview" else None)
    # AWX 24.6.1 lists nodes that do not answer required questions, and runs them with the answers of the launch.
    asks = {"GPU nodes, mig": {"preview", "change"}, "GPU nodes, mig from inventory": set()}[change]
    rejected = request(site, "GET", workflow, "launch", {})["node_prompts_rejected"]
    assert {node["identifier"] for node in nodes if node["id"] in rejected} == asks
    assert workflow["ask_limit_on_launch"]


def test_the_nightly_schedules_verify(site: Site) -> None:
    schedules = site.awx.objects["schedules"].values()
    templates = {one["id"]: one["name"] for one in site.awx.objects["job_templates"].values()}
    assert [(templates[one["unified_job_template"]], one["job_tags"]) for one in schedules] == [
        ("GPU nodes, verify", None),
        ("Managed GPU cluster", "verify"),
    ]


def test_inventories_are_read_from_the_project(site: Site) -> None:
    sources = site.awx.objects["inventory_sources"].values()
    assert [(PROJECT / source["source_path"]).is_file() for source in sources] == [True, True]


def test_the_type_of_kubeconfigs_keeps_the_templates_of_awx(site: Site) -> None:
    injectors = site.awx.one("credential_types", name="Kubeconfig")["injectors"]
    assert injectors == {
        "file": {"template": "{{ kubeconfig }}"},
        "env": {"K8S_AUTH_KUBECONFIG": "{{ tower.filename }}"},
    }


def test_the_readme_lists_the_objects(site: Site) -> None:
    listed = (TOP / "awx" / "README.md").read_text()
    resources = ("organizations", "execution_environments", "projects", "inventories", "instance_groups")
    resources += ("job_templates", "schedules", "workflow_job_templates")
    names = {one["name"] for resource in resources for one in site.awx.objects[resource].values()}
    names = {name for name in names if not name.startswith("Managed GPU cluster")}  # the setting has its name
    assert {name for name in names if "| `%s`" % name not in listed and ", `%s`" % name not in listed} == set()


# --- Refusals of AWX --------------------------------------------------------------------------------------------------


def request(site: Site, method: str, one: stand_in.Object, relation: str, data: t.Any) -> t.Any:
    return site.awx.request(method, "%s%s/" % (one["url"], relation), {}, data)[1]


def test_a_playbook_that_is_not_in_the_project_is_refused(empty: Site) -> None:
    template = {"name": "GPU nodes, mig", "description": "", "playbook": "gpufleet.node.mig"}
    run = empty.play("-e", yaml.safe_dump({"awx_job_templates": [template]}, default_flow_style=True), fails=True)
    assert "Playbook not found for project" in run.output


def test_two_credentials_of_one_type_are_refused(site: Site) -> None:
    template = site.awx.one("job_templates", name="GPU nodes, verify")
    kind = site.awx.one("credential_types", name="Machine")["id"]
    other = site.awx.add("credentials", name="other", credential_type=kind)
    with pytest.raises(stand_in.Refused, match="multiple credentials of one type"):
        request(site, "POST", template, "credentials", {"id": other["id"]})


def test_a_schedule_of_a_template_that_asks_is_refused(site: Site) -> None:
    template = site.awx.one("job_templates", name="GPU nodes, mig")
    schedule = {"name": "s", "rrule": "DTSTART:20260101T020000Z RRULE:FREQ=DAILY;INTERVAL=1"}
    with pytest.raises(stand_in.Refused, match="'nvidia_mig_layout' value missing"):
        site.awx.request("POST", "/api/v2/schedules/", {}, {**schedule, "unified_job_template": template["id"]})


@pytest.mark.parametrize(
    "answers, message",
    [
        ({}, "'nvidia_mig_layout' value missing"),
        ({"nvidia_mig_layout": "unknown"}, "expected to be one of"),
        ({"nvidia_mig_layout": "mixed"}, "'gpu_node_target' value missing"),
        (
            {"nvidia_mig_layout": "mixed", "gpu_node_target": "all", "gpu_node_batches": "2"},
            "expected to be an integer",
        ),
        ({"nvidia_mig_layout": "mixed", "gpu_node_target": ""}, "too small"),
        ({"nvidia_mig_layout": "mixed", "gpu_node_target": "all", "gpu_node_batches": 0}, "too small"),
        ({"nvidia_mig_layout": "mixed", "gpu_node_target": "all", "gpu_node_batches": 1001}, "too large"),
    ],
)
def test_wrong_answers_are_refused(site: Site, answers: t.Any, message: str) -> None:
    template = site.awx.one("job_templates", name="GPU nodes, mig")
    workflow = site.awx.one("workflow_job_templates", name="GPU nodes, change to a named layout")
    for launched in (template, workflow):
        with pytest.raises(stand_in.Refused, match=message):
            request(site, "POST", launched, "launch", {"extra_vars": answers})


def test_nodes_at_a_time_need_no_answer(site: Site) -> None:
    """AWX 24.6.1 demands an answer to a required question, although it has a default."""
    template = site.awx.one("job_templates", name="GPU nodes, mig from inventory")
    assert request(site, "POST", template, "launch", {}) == {"ignored_fields": {}}


def test_a_list_is_no_answer_to_a_question_for_text(site: Site) -> None:
    template = site.awx.one("job_templates", name="GPU nodes, undo")
    with pytest.raises(stand_in.Refused, match="expected to be a string"):
        request(site, "POST", template, "launch", {"extra_vars": {"gpu_node_target": ["gpu-a100-01"]}})


def test_other_variables_are_ignored(site: Site) -> None:
    """So what a launch may set is a question, or is in the inventory."""
    template = site.awx.one("job_templates", name="GPU nodes, mig")
    answers = {"nvidia_mig_layout": "mixed", "gpu_node_target": "gpu_nodes", "nvidia_mig_reset": True}
    launched = request(site, "POST", template, "launch", {"extra_vars": answers})
    assert launched == {"ignored_fields": {"extra_vars": {"nvidia_mig_reset": True}}}


def test_prompts_of_launches(site: Site) -> None:
    """All templates but those of clusters ask for the limit; none asks for forks or the diff mode."""
    prompts = {"limit": "gpu-a100-01", "job_type": "check", "job_tags": "verify", "verbosity": 1, "forks": 5}
    for template in site.awx.find("job_templates", {"survey_enabled": False}):
        cluster = template["name"] == "Managed GPU cluster"
        ignored = {"forks": 5, **({"limit": "gpu-a100-01"} if cluster else {})}
        assert request(site, "POST", template, "launch", prompts) == {"ignored_fields": ignored}


@pytest.mark.parametrize(
    "prompts, message",
    [
        ({"extra_vars": {"nvidia_mig_reset": True}}, "nvidia_mig_reset are not allowed on launch"),
        ({"job_tags": "verify"}, "not configured to prompt"),
    ],
)
def test_workflows_refuse_what_they_do_not_ask(site: Site, prompts: stand_in.Object, message: str) -> None:
    workflow = site.awx.one("workflow_job_templates", name="GPU nodes, apply the inventory")
    with pytest.raises(stand_in.Refused, match=message):
        request(site, "POST", workflow, "launch", prompts)
    assert request(site, "POST", workflow, "launch", {"limit": "gpu-a100-01"}) == {"ignored_fields": {}}


OWNER = ("organizations", "GPU nodes")
VERIFY = ("job_templates", "GPU nodes, verify")
WORKFLOW = ("workflow_job_templates", "GPU nodes, apply the inventory")
NODE = {"identifier": "n", "workflow_job_template": WORKFLOW}
TEMPLATE = {"name": "t", "project": ("projects", "GPU nodes, playbooks"), "playbook": "mig.yml"}
SCHEDULE = {"name": "s", "rrule": "DTSTART:20260101T020000Z RRULE:FREQ=DAILY;INTERVAL=1"}
CREDENTIAL = {"name": "c", "credential_type": ("credential_types", "Kubeconfig")}
PROJECT_CREDENTIAL = {"name": "p", "scm_type": "git", "scm_url": URL, "credential": ("credentials", "GPU cluster")}
TYPE = {"name": "k", "kind": "cloud", "inputs": {"fields": [{"id": "a"}]}}


@pytest.mark.parametrize(
    "resource, fields, message",
    [
        ("job_templates", {**TEMPLATE, "name": ""}, "may not be blank"),
        ("job_templates", TEMPLATE, "either set a default value or ask"),
        ("job_templates", {**TEMPLATE, "name": VERIFY[1], "inventory": ("inventories", "GPU nodes")}, "already exists"),
        ("projects", PROJECT_CREDENTIAL, "of kind cloud"),
        (
            "execution_environments",
            {"name": "e", "image": "i", "credential": ("credentials", "GPU cluster")},
            "of kind",
        ),
        ("credential_types", {**TYPE, "injectors": {"env": {"A": "{{ b }}"}}}, "'b' is undefined"),
        ("credentials", CREDENTIAL, "Missing 'user', 'team', or 'organization'"),
        ("credentials", {**CREDENTIAL, "organization": OWNER, "inputs": {"file": "x"}}, "'file' was unexpected"),
        ("schedules", {**SCHEDULE, "unified_job_template": VERIFY, "extra_data": {"a": 1}}, "a are not allowed"),
        ("schedules", {**SCHEDULE, "unified_job_template": VERIFY, "diff_mode": False}, "not configured to prompt"),
        (
            "workflow_job_template_nodes",
            {**NODE, "unified_job_template": ("job_templates", "Managed GPU cluster"), "limit": "gpu-a100-01"},
            "not configured to prompt",
        ),
        (
            "workflow_job_template_nodes",
            {
                **NODE,
                "unified_job_template": ("job_templates", "GPU nodes, mig"),
                "extra_data": {"nvidia_mig_layout": "unknown"},
            },
            "expected to be one of",
        ),
        (
            "workflow_job_template_nodes",
            {**NODE, "unified_job_template": VERIFY, "extra_data": {"a": 1}},
            "a are not allowed",
        ),
        ("workflow_job_template_nodes", {**NODE, "identifier": "preview"}, "already exists"),
    ],
)
def test_refused_objects(site: Site, resource: str, fields: stand_in.Object, message: str) -> None:
    for name, value in fields.items():
        if isinstance(value, tuple):
            of_organization = [
                one for one in site.awx.find(value[0], {"name": value[1]}) if one.get("organization") != 0
            ]
            fields = {**fields, name: of_organization[0]["id"]}
    with pytest.raises(stand_in.Refused, match=message):
        site.awx.request("POST", "/api/v2/%s/" % resource, {}, fields)


CHOICE = {"type": "multiplechoice", "variable": "nvidia_mig_busy", "question_name": "Busy", "required": False}


@pytest.mark.parametrize(
    "questions, message",
    [
        ([], "doesn't contain any items"),
        ([CHOICE], "must specify choices"),
        ([{**CHOICE, "type": "choice"}], "not one of the allowed question types"),
        ([{**CHOICE, "choices": ["fail"]}] * 2, "duplicated"),
    ],
)
def test_refused_questions(site: Site, questions: t.List[stand_in.Object], message: str) -> None:
    with pytest.raises(stand_in.Refused, match=message):
        survey = {"name": "", "description": "", "spec": questions}
        request(site, "POST", site.awx.one("job_templates", name="GPU nodes, mig"), "survey_spec", survey)


@pytest.mark.parametrize("template, credential", [("GPU nodes, mig", "Ansible Galaxy"), (None, "GPU cluster")])
def test_credentials_of_a_wrong_kind_are_refused(site: Site, template: t.Optional[str], credential: str) -> None:
    linked = {"id": site.awx.one("credentials", name=credential)["id"]}
    relation = "credentials" if template else "galaxy_credentials"
    owner = site.awx.one("job_templates", name=template) if template else site.awx.one("organizations")
    with pytest.raises(stand_in.Refused, match="Cannot assign a credential of kind"):
        request(site, "POST", owner, relation, linked)


def test_links_that_form_a_cycle_are_refused(site: Site) -> None:
    workflow = site.awx.one("workflow_job_templates", name=WORKFLOW[1])["id"]
    nodes = site.awx.find("workflow_job_template_nodes", {"workflow_job_template": workflow})
    steps = {node["identifier"]: node for node in nodes}
    with pytest.raises(stand_in.Refused, match="Cycle detected"):
        request(site, "POST", steps["report"], "success_nodes", {"id": steps["rehearsal"]["id"]})


def test_an_approval_has_no_links_of_its_own(site: Site) -> None:
    """Its node has them, so the playbook links it in a second task."""
    approval = next(iter(site.awx.objects["workflow_approval_templates"].values()))
    with pytest.raises(stand_in.Refused, match="Not found"):
        request(site, "GET", approval, "success_nodes", {})
